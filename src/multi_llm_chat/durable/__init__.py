"""Runs that survive: continued from the journal by whoever is there."""

"""Conversations with many speakers, kept."""

"""Runs: one speaker's answer each, recorded before anything happens, and resumed by any process that has its tools."""

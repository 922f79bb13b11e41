"""Runs: each is one speaker's answer, recorded step by step. Any process with the run's speaker and tools can resume it."""

"""Runs: one speaker's answer each, recorded step by step, resumed by any process with its speaker and tools."""

"""Recorded exchanges of real providers, from snapshots of public repositories: outside evidence for rules and codecs."""

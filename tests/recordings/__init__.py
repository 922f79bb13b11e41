"""Recorded exchanges with real providers, from snapshots of public repositories: external evidence for rules and codecs."""

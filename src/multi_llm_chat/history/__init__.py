"""Canonical history: values, readers, writers."""

"""Requests to providers and their replies, failures and retries, without I/O."""

"""Conversations as documents: what export writes and import reads."""

"""The other side of the wire: a ``Say`` in each provider's bytes, written apart from our readers."""

"""The wire formats: one package each, none knows another."""

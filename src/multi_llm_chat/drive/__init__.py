"""The only places that run an exchange over a transport: with and without ``async``."""

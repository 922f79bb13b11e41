"""The user's configuration: files, folders, keys and secrets."""

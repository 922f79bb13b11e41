"""What the user has settled: files, folders and secrets."""

"""The command line; the module of each command is imported when the command is used."""

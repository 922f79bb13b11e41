"""The interfaces of the earlier systems: handlers, assemblers and functions that their import paths re-export."""

"""The deviations of the rule catalogue's section on streams, one by one, to be asked for by id."""

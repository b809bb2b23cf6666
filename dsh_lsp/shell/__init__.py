"""Shell: what a command line is, which may run unasked, and how one runs and ends with all that it started."""

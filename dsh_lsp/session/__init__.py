"""Session: the log of facts, what is derived from it, and its file."""

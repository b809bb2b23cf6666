"""Tools: one file each; a new file here is found by scanning this package."""

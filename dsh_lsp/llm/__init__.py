"""Models: the adapter seam, the wire of each provider, and the assembly of answers."""

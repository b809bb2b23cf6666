"""Recorded event streams, and the views that the reference fold and the clients must come to."""

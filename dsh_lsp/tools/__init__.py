"""Tools: what a tool is, and how its calls are admitted, run and answered."""

"""Agent: the inbox, the driver and what a turn is made of."""

"""Attempts at a container: whether there is a further one, on which machines, with how much."""

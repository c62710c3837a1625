"""Inputs of a container: its image, its mounts, and the archives that both come in."""

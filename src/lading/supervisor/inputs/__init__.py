"""Inputs of a container: its image, its mounts, and the archives of both."""

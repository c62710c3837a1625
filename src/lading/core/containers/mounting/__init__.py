"""Mounts of a container: their shape in a request, their layout, and trees of git repositories."""

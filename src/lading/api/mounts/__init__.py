"""Content that mounts show beside collections: git trees, live directories, what a mount shows."""

"""Git repositories: a bare mirror of each, and the trees that mounts name."""

"""Limits of a container: control groups, disk space, GPUs; and samples of what it uses."""

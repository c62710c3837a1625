"""Limits of a container (control groups, disk space), and samples of its resource use."""

"""Reads of phage lambda, placed on its genome in four containers."""

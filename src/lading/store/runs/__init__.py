"""Runs: their steps, as requests with their containers."""

"""Runs as clients make and read them."""

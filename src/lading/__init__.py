"""Lading runs containers as records."""

__version__ = "0.2.0"

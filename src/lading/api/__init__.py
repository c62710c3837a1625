"""The metadata server."""

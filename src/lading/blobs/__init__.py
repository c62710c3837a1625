"""The block store server."""

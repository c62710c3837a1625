"""Requests as the Go programs of Arvados send them, against a running server."""

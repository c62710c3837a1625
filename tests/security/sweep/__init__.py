"""The sweep: every route of the server, called by strangers on things of another user."""

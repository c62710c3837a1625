"""The unmodified Arvados Python client against a real `lading up`."""

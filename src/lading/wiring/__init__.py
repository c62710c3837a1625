"""The composition root: from a data directory and a configuration to running services."""

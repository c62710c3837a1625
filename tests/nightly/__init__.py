"""The runner of `make nightly`."""

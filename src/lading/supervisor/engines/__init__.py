"""Container engines: what turns a bundle of facts into a running process."""

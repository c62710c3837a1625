"""Pure values, tables and decisions: no I/O, no clock, no randomness, no async."""

"""The documentation and what generates parts of it."""

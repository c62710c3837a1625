"""Examples that run on data of this repository."""

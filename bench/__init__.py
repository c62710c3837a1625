"""Benchmarks: Lading against its floors, measured in the same run on the same machine."""

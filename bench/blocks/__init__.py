"""Blocks of 64 MiB against what the machine takes to hash and write, or read and hash, the same
bytes.
"""

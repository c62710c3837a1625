"""Gangs over several machines: connections between their ranks, and the collection of their output.

Start with `remote_rank_client`.
"""

"""Gangs over several machines: connections between their ranks, and the directory that collects
their output. Start with `remote_rank_client`.
"""

"""Rows about containers: those that may be reused, those that have not ended, the requests that
wait for them or have tried them, the intervals in which they hold resources, and their lineage.
"""

"""Rows about containers: reusable and unfinished containers, the requests that wait for them or
have tried them, the intervals in which they hold resources, and their lineage.
"""

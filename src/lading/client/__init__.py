"""Clients of the API server, the block store and collections.

Start with `api`, `blocks` and `collections`; `transport` carries their requests.
"""

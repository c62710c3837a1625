"""The metadata server: an ASGI application over the records.

Start with `app`, then `resources`.
"""

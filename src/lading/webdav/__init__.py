"""Files of collections over HTTP and WebDAV, by a client of the API and of the block store.

Start with `app`, the ASGI application; `serving` has the reads and `writing` the changes.
"""

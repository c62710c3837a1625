"""GA4GH TES 1.1: tasks as container requests. This server is a client of the API.

Start with `app`, the ASGI application; `tasks` has the operations. The rules are in `core.tes`.
"""

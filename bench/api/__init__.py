"""What one API process can do: commits, reuse, reads, pages and locks over HTTP, on SQLite and on
PostgreSQL.

The process is the real server, pinned to one core; the client is pinned to another. Tokens,
permissions, the trail and events are as in production, and so is durability. The databases hold a
million finished requests.
"""

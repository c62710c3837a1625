"""The only SQL of the server: records, permissions and migrations, in SQLite or PostgreSQL.

Start with `database`, the seam that both databases implement, and `records`, which reads and writes
all record types. `query` writes the SQL of list queries; `permissions` maintains the permission
tables, which `permission_queries` queries.
"""

"""Records: their types and fields, list queries, validation, versions, and who may read or write
them.

Start with `record_types`: one table that yields the database schema, the routes, the discovery
document and OpenAPI. This room knows only the modules beside it in `core`.
"""

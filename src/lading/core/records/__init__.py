"""Records: their types and fields, list queries, validation, versions, and access to them.

Start with `record_types`: one table that yields the database schema, the routes, the discovery
document and OpenAPI. This package imports only the modules beside it in `core`.
"""

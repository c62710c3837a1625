"""Decisions of the server of S3: signatures, names, listings, documents.

Source: docs/spec/s3.
"""

"""Files of collections by the protocol of S3, as one ASGI application.

Source: docs/spec/s3.
"""

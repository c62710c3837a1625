"""The handlers of the API, one module for each record type.

`generic` has the steps that all types share. Start with `container_requests`.
"""

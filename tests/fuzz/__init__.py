"""Generated calls: by the OpenAPI document, and real bodies with something wrong in them. `make
fuzz` makes many.
"""

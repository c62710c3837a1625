"""Files of the site as one tree of names: projects, collections, and the files in them.

`tree` has the operations, `path` is `lading.Path`, `fsspec_system` the file system of fsspec.
"""

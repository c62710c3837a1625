"""Code that the servers of files share: trees of collections, reads, uploads, changes, answers.

The servers, such as `webdav`, stand above it. Start with `services`.
"""

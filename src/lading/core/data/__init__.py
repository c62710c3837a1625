"""Stored data: locators, manifests, file trees, replication and garbage collection of blocks.

Start with `manifest` (the text) and `filetree` (the immutable tree that is read from it).
"""

"""The output of a container: which entries of its file system are saved, and as what.

Start with `plan` (the values); `walk` selects the entries.
"""

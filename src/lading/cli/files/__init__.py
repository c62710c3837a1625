"""Commands on stored data: put, get, copy, compare, mount, share, and maintenance of the block
store.
"""

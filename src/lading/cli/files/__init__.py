"""Commands on stored data: put, get, copy, compare, mount, share, and the upkeep of the block
store.
"""

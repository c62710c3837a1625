"""Commands on stored data: put, get, copy, compare, mount, share, and care of the block store."""

"""Everyone's way to the API, the blocks and the collections."""

"""Makes the applications that one server process serves beside the API and the blocks."""

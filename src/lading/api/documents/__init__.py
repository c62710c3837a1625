"""Documents of the API about itself: discovery, OpenAPI, and what anyone may read."""

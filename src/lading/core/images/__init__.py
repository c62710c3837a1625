"""Container images: the archive layout, and the ways in which a request names an image."""

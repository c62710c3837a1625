"""Container images: the archive layout, and the forms in which a request names an image."""

"""Caches on disk: inputs as files, layers of images, blocks; and the room that they leave on it."""

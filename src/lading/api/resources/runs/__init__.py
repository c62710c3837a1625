"""Runs of pipelines: read, begun and ended."""

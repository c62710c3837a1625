"""GPUs: models, readings, and faults."""

"""GPUs of this machine: device files, specifications, readings."""

"""Container Device Interface: descriptions of devices, and what they change in a container."""

"""Instance drivers: EC2, Azure, Google, OpenStack, and namespaces of this machine.

The seam is `driver`.
"""

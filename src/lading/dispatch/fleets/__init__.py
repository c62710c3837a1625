"""The fleets: supervisors as processes of this machine, as jobs of batch systems, and on cloud VMs.

`dispatch.fleet` defines the seam.
"""

"""The fleets: supervisors as processes of this machine, as Slurm jobs, and on cloud VMs.

`dispatch.fleet` defines the seam.
"""

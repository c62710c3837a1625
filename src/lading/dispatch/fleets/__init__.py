"""The fleets: supervisors as processes of this machine, as Slurm jobs, and on cloud VMs (the seam
is `dispatch.fleet`).
"""

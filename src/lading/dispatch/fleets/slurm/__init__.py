"""The Slurm fleet: each container is a batch job.

Start with `slurm_fleet`.
"""

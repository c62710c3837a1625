"""The batch fleet: each container is a job of a batch system.

Start with `batch_fleet`; the seam to the systems is `batch_system`.
"""

"""Adapters of the batch fleet, one for each batch system.

Start with `opening`; the seam is `batch.batch_system`.
"""

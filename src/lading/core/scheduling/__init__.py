"""Scheduling: which container runs where, which VMs are made and removed, and why a container
waits.

Start with `batch_planner`, a function from a snapshot to a plan; `cloud_planner` adds making and
removing VMs.
"""

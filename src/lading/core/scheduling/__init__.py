"""Scheduling: which container runs where, which VMs are made or removed, why a container waits.

Start with `planning`, the records that all of it shares: containers, workers, snapshots, decisions.
`batch_planner` is a function from a snapshot to a plan; `cloud_planner` adds making and removing
VMs. `reconcile` compares records with processes.
"""

"""The fleet of cloud VMs: created when containers wait for them, removed when unused.

Start with `cloud_fleet`.
"""

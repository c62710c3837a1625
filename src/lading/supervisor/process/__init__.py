"""Processes of supervisors: the forkserver, its workers, locks, and the clean-up after a crash.

Start with `forkserver` (many containers on one machine) or `standalone` (one container).
"""

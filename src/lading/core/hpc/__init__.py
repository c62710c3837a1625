"""HPC clusters of containers: gangs, states and settings of the HPC daemon, files for MPI and ssh.

Start with `gang` (one request as several containers) and `daemon_states` (the transition tables).
"""

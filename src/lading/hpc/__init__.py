"""HPC: the daemon in the containers of an MPI cluster, and the conductor that makes a cluster of
containers.
"""

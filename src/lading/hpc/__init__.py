"""HPC: the daemon in the containers of an MPI cluster, and the conductor that creates a cluster."""

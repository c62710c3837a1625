"""Access to running containers: shell sessions, published ports, the tunnels that carry both, and
logs as files and as streams.
"""

"""Access to running containers: shell sessions, published ports, and the tunnels that carry
both.
"""

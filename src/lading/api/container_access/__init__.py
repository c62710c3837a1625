"""Access to running containers: shell sessions, published ports, tunnels, and logs."""

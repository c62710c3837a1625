"""Network plumbing that servers and clients share: requests between processes, pipes, HTTP
upgrades, tunnels, certificates, connection limits.

Start with `rpc` (requests and replies between processes) and `pipes` (bytes between two
connections).
"""

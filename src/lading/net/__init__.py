"""Network code that servers and clients share: messages, pipes, upgrades, tunnels, certificates.

Start with `rpc` (requests and replies between processes) and `pipes` (bytes between two
connections).
"""

"""Network plumbing that servers and clients share: pipes, HTTP upgrades, tunnels, certificates,
connection limits.
"""

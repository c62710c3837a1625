"""Network protocols as pure functions and state machines: HTTP heads, yamux, origins, connection
limits.
"""

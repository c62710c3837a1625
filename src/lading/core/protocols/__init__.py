"""Network protocols as pure functions and state machines: HTTP heads, yamux, connection limits."""

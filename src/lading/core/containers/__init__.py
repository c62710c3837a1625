"""Containers and container requests: states, recipes, reuse, mounts, output, cost and retries.

Start with `container` (the transition table), `request` and `recipe`; `effects` lists the actions
that a change requests from the server.
"""

"""Containers and container requests: states, recipes, reuse, mounts, output, cost and retries.

Start with `container` (the transition table, and the effects: actions that a change requests from
the server), `request` and `recipe`.
"""

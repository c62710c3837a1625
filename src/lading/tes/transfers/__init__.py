"""Inputs and outputs of tasks by URL: fetched into collections, delivered from them.

Start with `worker`, which takes the stored work of tasks (`journal`). `inputs` fetches: `servers`
finds what is at a URL, `fetching` receives it, `input_store` keeps it. `outside_http` speaks to
servers that users name. The rules are in `core.tes`: `locations`, `transfers`, `file_roots`.
"""

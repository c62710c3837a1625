"""GA4GH TES 1.1: what a task says, and what clients see of it.

Start with `document`, the checks of a task; `mapping` makes a container request of it, `states` and
`views` show a request as a task, `listing` has the parameters of a list. Inputs and outputs by URL:
`locations`, `transfers`, `credentials`.
"""

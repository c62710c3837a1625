"""Several dispatchers on one PostgreSQL: `site` has the servers, `made_up` a dispatcher that runs
nothing, `measure` the figures. Open `measure` first.
"""

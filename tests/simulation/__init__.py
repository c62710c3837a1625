"""A whole installation in one process, on simulated time, with faults chosen by a seed.

Real: the rules of `core` for containers, requests, retries, reuse, priorities and plans, and all of
`dispatch` (client, queue_sync, queue, state, loop, actions). Modelled: hosts, supervisors, commands
and users. The API server is a model in memory (`server`). In a share of the seeds the real handlers
of `api` run beside it on a database in memory (`handlers`), and the results of each call are
compared (`comparison`), so that the model stays equal to them.

All parts speak by messages of `traffic`. A seeded scheduler delivers, delays, loses and doubles
them; every part can crash at any step. `scenario.run` runs one seed and checks `invariants` after
each step. The same seed always gives the same run. `bugs` are planted to show which are found.

Open `scenario` first.
"""

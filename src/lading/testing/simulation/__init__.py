"""A whole installation in one process, on a clock that stands still, with everything going wrong by seed.

What is real: the rules of `core` for containers, requests, retries, reuse, priorities and plans, and the whole of
`dispatch` (client, feed, queue, ledger, loop, actions). Hosts, supervisors and the commands of users are modelled. The
API server is a model in memory (`server`); in a share of the seeds the real handlers of `api` run beside it on a
database in memory (`handlers`), and each call is compared (`comparison`), so that the model cannot drift.

All that one part says to another is a message of `traffic`, which a seeded scheduler delivers, holds back, drops,
doubles or lets overtake others; every part can crash at any moment. `scenario.run` runs one seed, and the same seed
always goes the same way; after each step the invariants of `invariants` are checked. `bugs` are planted to show that
they find something.
"""

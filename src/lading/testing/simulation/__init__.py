"""A whole installation in one process, on a clock that stands still, with everything going wrong by seed.

What is real: the rules of `core` for containers, requests, retries, priorities and plans, and the whole of `dispatch`
(client, feed, queue, ledger, loop, actions). What is modelled: the server's store, hosts and their supervisors, the
commands of users. All that one part says to another is a message of `traffic`, which a seeded scheduler delivers, holds
back, drops, doubles or overtakes; every part can crash at any moment. `drama.play` plays one seed, and the same seed
always plays the same; after each step the invariants of `drama` are checked.
"""

"""The dispatcher: finds waiting containers, starts a supervisor for each, removes their remains.

Start with `loop`, which observes, plans and acts. `queue` and `queue_sync` keep the records of
containers, `state` the actions under way, `observe` compares both with the processes of the fleet.
`fleet` is the seam between the loop and the supervisors, `fleets` its implementations.
"""

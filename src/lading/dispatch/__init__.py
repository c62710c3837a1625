"""The dispatcher: finds containers that wait, starts a supervisor for each, clears up afterwards.

Start with `loop`, which observes, plans and acts. `queue` and `queue_sync` know the records of
containers, `state` remembers what is under way, `observe` compares both with the processes of the
fleet. `fleet` is the seam to what runs supervisors, `fleets` its
implementations.
"""

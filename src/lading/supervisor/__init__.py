"""Runs containers: an ordered list of named, idempotent, undoable steps for each.

Start with `lifecycle`, the steps. `process` starts supervisors on this machine, `inputs`
prepares mounts and images, `engines` run the container, `limits` watch its resources, `gang`
connects the ranks of an MPI job over several machines.
"""

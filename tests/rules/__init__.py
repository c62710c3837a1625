"""Rules of this repository that a program can check.

`python -m tests.rules` checks them all in some seconds; pytest takes each rule for a test. Start
with `sources`, which reads and parses each file once.
"""

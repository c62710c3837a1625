"""Attacks on a running system. Each test is marked `attack("what the attacker does")`.

`python -m tests.security` runs them and prints one line per attack: held or not.
"""

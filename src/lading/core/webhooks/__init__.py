"""Webhooks: which events they get, what is sent, how it is signed, and when it is tried again.

Open `subscription` first.
"""

"""Events: the audit trail of changes, the websocket that tells of them, and timers that cause
them.
"""

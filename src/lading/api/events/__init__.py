"""Events: the audit trail of changes, the websocket that reports them, and timers that cause
them.
"""

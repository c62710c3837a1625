"""Events: the audit trail of changes, the websocket that reports them, and their timers."""

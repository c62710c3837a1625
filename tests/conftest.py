"""What all tests may use."""

from __future__ import annotations

import signal

from tests.postgres import postgres

__all__ = ["postgres"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts a job in the background has it ignore Ctrl-C, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

"""The early end of long steps in threads: a step calls its `stop` now and then."""

from __future__ import annotations

from collections.abc import Callable

Stop = Callable[[], bool]
"""Returns whether a long step has to end; called every few hundred entries, in the calling
thread.
"""
# Entries between two calls of `stop`: some 2 ms of work.
_STRIDE = 256


class Stopped(Exception):
    """A long step ended early because its `stop` returned true."""


def never() -> bool:
    """The `stop` of a step that cannot be stopped."""
    return False


def check_stop(asked: int, stop: Stop) -> int:
    """Count one more entry; call `stop` at every 256th. Raises Stopped.

    `asked`: how many entries were counted before; the result is the next value for it.
    """
    if asked % _STRIDE == 0 and stop():
        raise Stopped
    return asked + 1

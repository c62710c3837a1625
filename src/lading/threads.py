"""Long work in a thread that can be told to end.

A thread cannot be cancelled from outside. So the work gets a function that tells whether it should
end, and descriptors of its own, so that the caller may close its own ones at once.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from lading.confined import Stop

_Answer = TypeVar("_Answer")


async def in_thread(
    work: Callable[[Stop, tuple[int, ...]], _Answer], *descriptors: int, is_waited_for: bool = False
) -> _Answer:
    """Run `work(stop, descriptors)` in a thread, with copies of the descriptors that are closed at
    its end; return its result.

    When the caller is cancelled `stop()` returns true, and work that was not begun never is. The
    caller does not wait then, unless the work `is_waited_for`: work that writes must be over before
    its files are removed.
    """
    copies = tuple(os.dup(one) for one in descriptors)
    # The lock is taken by whichever comes first, the start of the work or the cancellation; the
    # other one then does nothing, so the copies are closed exactly once.
    stopped, taken = threading.Event(), threading.Lock()

    def close() -> None:
        for one in copies:
            os.close(one)

    def run() -> _Answer:
        if not taken.acquire(blocking=False):
            raise asyncio.CancelledError
        try:
            return work(stopped.is_set, copies)
        finally:
            close()

    running = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await (asyncio.shield(running) if is_waited_for else running)
    finally:
        stopped.set()
        if taken.acquire(blocking=False):
            close()
        elif is_waited_for and not running.done():
            await asyncio.gather(running, return_exceptions=True)

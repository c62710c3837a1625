"""Long work in a thread that hears when nobody waits for it any more.

A thread cannot be cancelled from outside. The work is therefore given a function to ask now and
then whether it is to end, and descriptors of its own, so that whoever waits may close theirs at
once.
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
    """The answer of `work(stop, descriptors)` in a thread, with copies of the descriptors that are
    closed at its end.

    When the caller is cancelled `stop()` is true from then on, and work that was not begun never
    is. The caller does not wait then, unless the work `is_waited_for`: work that writes must be
    over before what it wrote is removed.
    """
    copies = tuple(os.dup(one) for one in descriptors)
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

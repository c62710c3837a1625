"""An event loop on simulated time without sockets.

Only `advance` moves its clock. `play` runs a coroutine on such a loop, from one timer to the next.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping
from heapq import heappop
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class _NoSockets(selectors.BaseSelector):
    """A selector without file descriptors: the simulated loop does no I/O."""

    def __init__(self) -> None:
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        del timeout
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs tasks in the order in which they became ready, and timers when their time is reached."""

    def __init__(self) -> None:
        self._moment = 0.0
        super().__init__(_NoSockets())
        self.faults: list[BaseException] = []
        self.set_exception_handler(self._note)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._moment

    def advance(self, to: float) -> None:
        """Move the clock to `to` seconds. `settle` then runs the timers that are due."""
        self._moment = max(self._moment, to)

    def next_timer(self) -> float | None:
        """Time at which the next timer is due, in seconds; None if there is no timer."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        # The list is a heap. The loop drops cancelled timers from its top in the same way.
        while timers and timers[0].cancelled():
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
            heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        return timers[0].when() if timers else None

    def settle(self) -> None:
        """Run all ready tasks until each waits for a message or a timer.

        Raises the first exception of a task that nobody awaits.
        """
        ready: Any = self._ready  # type: ignore[attr-defined]
        run_once: Callable[[], None] = self._run_once  # type: ignore[attr-defined]
        asyncio._set_running_loop(self)
        try:
            run_once()
            while ready:
                run_once()
        finally:
            asyncio._set_running_loop(None)
        if self.faults:
            raise self.faults[0]

    def complete(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine that waits neither for messages nor timers to its end.

        Call it from outside of the loop, while no task is ready.
        """
        task = self.create_task(work)
        self.settle()
        return task.result()

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, BaseException):
            error = AssertionError(str(context["message"]))
        self.faults.append(error)


async def pass_time(seconds: float) -> None:
    """Let so much made-up time go by: it takes no time."""
    assert isinstance(asyncio.get_running_loop(), SimulatedLoop)
    await asyncio.sleep(seconds)


def play(work: Coroutine[Any, Any, _Result], *, longest: float = 1e6, tick: float = 0.0) -> _Result:
    """Run it in a time that passes as fast as nothing happens. Raises AssertionError when it takes
    too long.

    With a `tick` time advances by so many seconds, and all timers within are run at its end.
    """
    loop = SimulatedLoop()
    task = loop.create_task(work)
    while not task.done():
        loop.settle()
        if task.done():
            break
        due = loop.next_timer()
        assert due is not None, "nobody waits for anything any more"
        assert due < longest, f"not done after {loop.time():.0f} s"
        loop.advance(math.ceil(due / tick) * tick if tick else due)
    for unfinished in asyncio.all_tasks(loop):
        unfinished.cancel()
    loop.settle()
    loop.close()
    return task.result()

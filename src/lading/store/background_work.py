"""Stored work that a server does in the background: the loop that looks for it, and its tasks.

A step looks for work and does it, or begins tasks that do it. Its faults are logged: a fault of the
database, or of one piece of work, must not end the server. Steps take a small share of the time.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from lading.core.errors import LadingError
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

# Seconds before another step after a fault, which would come again at once.
_FAULT_PAUSE: Final = 1.0
# The largest share of the time that steps take.
_SHARE: Final = 0.05
# Seconds between two sweeps of stored rows that nothing refers to.
_SWEEP_INTERVAL: Final = 3600.0
_Work = TypeVar("_Work")


class WorkLoop:
    """Repeats steps. `failure` is the log line of a fault, after which the next step waits for
    `fault_pause` seconds more.
    """

    def __init__(
        self,
        logger: logging.Logger,
        failure: str,
        *,
        fault_pause: float = _FAULT_PAUSE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._logger = logger
        self._failure = failure
        self._fault_pause = fault_pause
        self._sleep = sleep
        self._is_faulty = False

    @contextmanager
    def boundary(self, work: str = "") -> Iterator[None]:
        """Log a fault in the block; the next step then comes after a pause. `work` names the block
        in the log.
        """
        try:
            yield
        except LadingError as error:
            self._is_faulty = True
            event(self._logger, self._failure, work=work, error=error.message)
        except Exception:  # a fault of one piece of work must not end the server
            self._is_faulty = True
            self._logger.exception("%s work=%s", self._failure, work)

    async def run(
        self,
        step: Callable[[], Awaitable[object]],
        wait: Callable[[float], Awaitable[object]] | None = None,
        *,
        sweep: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Repeat a step until cancelled. `wait` waits for the next step; it gets the least number
        of seconds to wait; without it the step waits itself. `sweep` is called with the first
        step, and once an hour.
        """
        loop = asyncio.get_running_loop()
        swept = -math.inf
        while True:
            began = loop.time()
            with self.boundary():
                await step()
            if sweep is not None and began - swept >= _SWEEP_INTERVAL:
                swept = began
                with self.boundary():
                    await sweep()
            if wait is not None:
                await wait((loop.time() - began) / _SHARE)
            if self._is_faulty:
                self._is_faulty = False
                await self._sleep(self._fault_pause)


class WorkTasks(Generic[_Work]):
    """The pieces of work that are being done, each by a task; `on_end` is called when one ends."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        self._on_end = on_end
        self._active: dict[str, tuple[_Work, asyncio.Task[None]]] = {}

    @property
    def pieces(self) -> list[_Work]:
        """The work that is being done."""
        return [work for work, _ in self._active.values()]

    def start(self, key: str, work: _Work, doing: Coroutine[Any, Any, None]) -> None:
        """Begin a piece of work, which no task does yet. A task handles the faults of its work."""
        task = asyncio.create_task(doing, name=f"work on {key}")
        self._active[key] = work, task
        task.add_done_callback(lambda _: self._forget(key))

    def stop(self, key: str) -> None:
        """Cancel a piece of work, if it is being done here."""
        if key in self._active:
            self._active[key][1].cancel()

    async def settle(self) -> None:
        """Wait until all work has ended that is being done."""
        await asyncio.gather(*(task for _, task in self._active.values()), return_exceptions=True)

    async def close(self) -> None:
        """Cancel all work, and wait until it has ended."""
        await cancel_all(*(task for _, task in self._active.values()))

    def _forget(self, key: str) -> None:
        self._active.pop(key, None)
        self._on_end()

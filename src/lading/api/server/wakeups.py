"""Wakes the tasks of a server that wait for a change."""

from __future__ import annotations

import asyncio

from lading.process.concurrency import wait_at_most


class Wakeups:
    """Wakes the two tasks of `events.timers`, and those of `request_cancellation` and `cascades`. A
    wake-up that no task waits for yet is remembered.
    """

    def __init__(self) -> None:
        self.webhooks = asyncio.Event()
        """Wakes the sending of events: a webhook was made or changed, or an event may be due."""
        self._moment = asyncio.Event()
        self._sought = asyncio.Event()
        self._cancelled = asyncio.Event()
        self._cascade = asyncio.Event()

    def wake(self) -> None:
        """Wake the timers: a time that is nearer may have been set."""
        self._moment.set()

    def seek(self) -> None:
        """Wake the search for containers: a request waits for a git repository."""
        self._sought.set()

    def cancel(self) -> None:
        """Wake the cancellation of many requests: there is a new one."""
        self._cancelled.set()

    def cascade(self) -> None:
        """Wake the work on cascades: there is a new one."""
        self._cascade.set()

    async def until_cascade(self, seconds: float) -> None:
        """Wait for `cascade`, for at most `seconds`."""
        await wait_at_most(self._cascade, seconds)
        self._cascade.clear()

    async def until_moment(self, seconds: float) -> None:
        """Wait for `wake`, for at most `seconds`."""
        await wait_at_most(self._moment, seconds)
        self._moment.clear()

    async def until_sought(self, seconds: float) -> None:
        """Wait for `seek`, for at most `seconds`."""
        await wait_at_most(self._sought, seconds)
        self._sought.clear()

    async def until_cancelled(self, seconds: float) -> None:
        """Wait for `cancel`, for at most `seconds`."""
        await wait_at_most(self._cancelled, seconds)
        self._cancelled.clear()

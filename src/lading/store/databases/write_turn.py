"""The turn to write: one holder at a time, and work in the background gives way to calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

MOST_PASSED: Final = 16
"""Calls that go before work in the background while it waits for one turn."""


class WriteTurn:
    """A lock for two kinds of holders. Each kind is served in the order of its arrival.

    A call waits for the present holder and earlier calls alone. Work in the background (`aside`)
    waits until no call waits, or until `most_passed` calls went before it.
    """

    def __init__(self, *, most_passed: int = MOST_PASSED) -> None:
        self._most_passed = most_passed
        self._is_taken = False
        self._calls: deque[asyncio.Future[None]] = deque()
        self._aside: deque[asyncio.Future[None]] = deque()
        # Calls that went before the first of those aside.
        self._passed = 0

    @asynccontextmanager
    async def held(self, *, aside: bool = False) -> AsyncIterator[None]:
        """Hold the turn while the context is open."""
        await self._take(self._aside if aside else self._calls)
        try:
            yield
        finally:
            self._give()

    async def _take(self, queue: deque[asyncio.Future[None]]) -> None:
        # The turn is handed from holder to holder, so that a free one has no waiter.
        if not self._is_taken:
            self._is_taken = True
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                # It was handed over before the cancellation arrived.
                self._give()
            raise

    def _give(self) -> None:
        calls, aside = _waiting(self._calls), _waiting(self._aside)
        if calls and not (aside and self._passed >= self._most_passed):
            self._passed += bool(aside)
            calls.popleft().set_result(None)
        elif aside:
            self._passed = 0
            aside.popleft().set_result(None)
        else:
            self._is_taken = False


def _waiting(queue: deque[asyncio.Future[None]]) -> deque[asyncio.Future[None]]:
    """The queue without the waiters at its beginning that were cancelled."""
    while queue and queue[0].done():
        queue.popleft()
    return queue

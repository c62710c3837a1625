"""Calls of the API of a cloud: each has its turn at a rate, a time-out, and is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lading.core.errors import LadingError, Unavailable
from lading.dispatch.fleets.cloud.metrics import CloudCounters
from lading.dispatch.fleets.cloud.settings import CloudSettings

_Answer = TypeVar("_Answer")


class CallRate:
    """Allows `rate` calls a second, 0 any number; after a pause a burst of one second's calls."""

    def __init__(self, rate: float) -> None:
        self._gap = 1.0 / rate if rate > 0 else 0.0
        self._burst = max(0.0, 1.0 - self._gap)
        self._next = float("-inf")

    async def turn(self) -> None:
        """Wait for a turn."""
        if not self._gap:
            return
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._burst) + self._gap
        if self._next - self._gap > now:
            await asyncio.sleep(self._next - self._gap - now)


class CloudCalls:
    """Makes the calls of one dispatcher; `check_lease` raises LadingError where it may not."""

    def __init__(
        self, settings: CloudSettings, counts: CloudCounters, check_lease: Callable[[], None]
    ) -> None:
        self._rate = CallRate(settings.operation_rate)
        self._timeout = settings.operation_timeout
        self._counts, self._check_lease = counts, check_lease

    async def make(self, name: str, call: Awaitable[_Answer]) -> _Answer:
        """A call of the cloud, with its turn and a time-out. Raises LadingError only."""
        try:
            await self._rate.turn()
            self._check_lease()
        except (asyncio.CancelledError, LadingError):
            # A coroutine that is never awaited would warn.
            if asyncio.iscoroutine(call):
                call.close()
            raise
        try:
            async with asyncio.timeout(self._timeout):
                answer = await call
        except TimeoutError as error:
            self._counts.operation(name, failed=True)
            raise Unavailable(f"the cloud did not answer in {self._timeout:g} s") from error
        except LadingError:
            self._counts.operation(name, failed=True)
            raise
        self._counts.operation(name, failed=False)
        return answer

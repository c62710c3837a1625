"""What wakes the tasks of `timers`: a moment that came closer, a container that is sought."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Alarm:
    """Two bells. Ringing one that nobody waits for yet is remembered."""

    def __init__(self) -> None:
        self._moment = asyncio.Event()
        self._sought = asyncio.Event()

    def wake(self) -> None:
        """A moment may have come closer."""
        self._moment.set()

    def seek(self) -> None:
        """A container is sought."""
        self._sought.set()

    async def until_moment(self, seconds: float) -> None:
        """Wait until woken, at most so long."""
        await _wait(self._moment, seconds)

    async def until_sought(self, seconds: float) -> None:
        """Wait until something is sought, at most so long."""
        await _wait(self._sought, seconds)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()

"""Waiting in tests without sleeping: look at a condition again whenever something changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pulse:
    """Those who wait for a condition look again at each `beat`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def beat(self) -> None:
        """Something changed."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return as soon as `condition` holds at a beat, or now."""
        while not condition():
            await self._event.wait()

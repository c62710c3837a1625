"""Limit of calls per second, for calls to a cloud and for probes."""

from __future__ import annotations

import asyncio


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

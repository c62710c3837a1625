"""Pace of large streams while calls are delayed, by `core.protocols.transfer_rates`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from lading.core.protocols import transfer_rates
from lading.core.protocols.transfer_rates import PeriodMeasurements, StreamPace

Account = Callable[[], tuple[float, int] | None]
_ACCOUNT: Final = Path("/proc/self/schedstat")
# Delay in seconds of an idle event loop that does not count as congestion.
_GRAIN: Final = 0.001
# Rate at the first congestion, in multiples of the least rate.
_FIRST: Final = 2.0


def read_account() -> tuple[float, int] | None:
    """Seconds for which the first thread of this process waited for a processor, and how often it
    was given one. None where the kernel does not count them.

    The first thread runs the event loop.
    """
    try:
        ran, waited, turns = (int(number) for number in _ACCOUNT.read_text().split())
    except (OSError, ValueError):
        # The kernel does not count (CONFIG_SCHED_INFO), or /proc is not there.
        return None
    return (waited / 1e9, turns) if ran else None


class Pacer:
    """Pacer of all streams of one event loop; together they move at least `least` bytes a second.

    Load is measured by the time that the process waits for a processor, or where the kernel does
    not count it, by the delay of the event loop's timers.
    """

    def __init__(
        self,
        least: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        account: Account = read_account,
    ) -> None:
        self._least = least
        self._clock = clock
        self._sleep = sleep
        self._account = account
        self._pace = StreamPace(rate=least * _FIRST)
        self._called = self._since = float("-inf")
        self._free = self._late = 0.0
        self._before: tuple[float, int] = (0.0, 0)
        self._moved = 0

    def note_call(self) -> None:
        """Note that a call waits for its response."""
        self._called = self._clock()

    def stream(self) -> PacedStream:
        """Pace of one stream in one direction."""
        return PacedStream(self)

    def now(self) -> float:
        """Seconds on the pacer's clock."""
        return self._clock()

    async def admit(self, size: int) -> None:
        """Wait until a large stream may pass on its next piece."""
        now = self._clock()
        self._look(now)
        self._moved += size
        if not self._pace.is_bound:
            return
        due, self._free = transfer_rates.reserve(self._free, size, now=now, rate=self._pace.rate)
        if due > now:
            await self._sleep(due - now)
            self._late += max(0.0, self._clock() - due - _GRAIN)

    def _look(self, now: float) -> None:
        seconds, called = now - self._since, now - self._called < transfer_rates.RECENT
        if seconds < transfer_rates.PERIOD and self._pace.is_bound >= called:
            return
        account = self._account()
        waited, turns = account if account is not None else (self._late, 0)
        period = PeriodMeasurements(
            seconds=seconds,
            waited=waited - self._before[0],
            turns=turns - self._before[1],
            moved=self._moved,
            called=called,
        )
        self._pace = transfer_rates.observe(self._pace, period, least=self._least)
        self._since, self._before, self._moved = now, (waited, turns), 0


class PacedStream:
    """Pace of one stream: waits once the stream is large."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._allowance = transfer_rates.StreamAllowance(at=pacer.now())

    async def admit(self, size: int) -> None:
        """Wait until `size` bytes may be passed on."""
        self._allowance = self._allowance.spend(size, now=self._pacer.now())
        if self._allowance.is_spent:
            await self._pacer.admit(size)

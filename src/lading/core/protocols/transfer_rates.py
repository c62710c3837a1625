"""Rates of bulk data from a server (congestion control), and detection of slow peers.

The rate of bulk data follows the measured wait for a processor (`observe`, `reserve`): a process
that answers calls and forwards bytes competes with its own clients, since each byte gives work to
its sender and its reader on the same processors. The time that the process waits for a processor
when it has work is felt by its callers. Rules:

- Without calls there is no bound.
- With calls, all streams that move much share one rate. In each period in which the process waited
  for more than a hundredth of it, the rate is halved, but not below the configured minimum. In
  every other period in which the rate was used it grows, by `STEP` for each second: at 20 MB/s
  about one period in twenty has a wait, and hardly one call in a hundred is affected.
- The rate is kept from one congestion to the next, since it was sustainable last. Nothing is
  learned from periods without a bound.
- A stream may pass a mebibyte at once, and continuously a rate at which interactive use never
  waits; only streams beyond that are bounded (`StreamAllowance`).

`MinimumRate` finds peers that are so slow that they would hold memory for long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PERIOD = 0.1
"""Seconds between two decisions."""
RECENT = 1.0
"""Seconds after a call in which another one is expected."""
TARGET = 0.01
"""Part of the time for which the process may wait."""
TURN = 20e-6
"""Seconds until a thread gets a processor that no other thread uses."""
# Factor of the rate after a period with a wait.
LOWER = 0.5
# Bytes a second by which the rate grows in each second.
STEP = 5e6
# A rate of which less than this part was used is not raised: nothing shows that more is
# sustainable.
USED = 0.5
# Seconds of unused time that a stream may catch up on.
BURST = 0.002
# Bytes that a stream may pass on at once, and bytes a second that refill them.
SPARE = float(1 << 20)
REFILL = float(16 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPace:
    """Bytes a second that were sustainable last, and whether they are a bound now."""

    rate: float
    is_bound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodMeasurements:
    """Measurements of a period of `seconds`.

    `waited`: seconds in which the process had work and no processor; `turns`: how often it got one;
    `moved`: bytes of the bulk streams; `called`: a call came recently (`RECENT`).
    """

    seconds: float
    waited: float
    turns: int
    moved: int
    called: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAllowance:
    """Bytes that a stream may still pass without being bounded, as of the time `at` in seconds."""

    left: float = SPARE
    at: float = 0.0

    @property
    def is_spent(self) -> bool:
        """Whether the stream is a bulk stream."""
        return self.left <= 0

    def spend(self, size: int, *, now: float) -> StreamAllowance:
        """The allowance after passing `size` bytes."""
        filled = min(SPARE, max(0.0, self.left) + max(0.0, now - self.at) * REFILL)
        return StreamAllowance(left=filled - size, at=now)


def observe(pace: StreamPace, period: PeriodMeasurements, *, least: float) -> StreamPace:
    """The pace after a period; the rate is never below `least`."""
    if not period.called or not pace.is_bound:
        return replace(pace, is_bound=period.called)
    waited = period.waited - period.turns * TURN
    if waited > period.seconds * TARGET:
        return replace(pace, rate=max(least, pace.rate * LOWER))
    if period.moved >= pace.rate * period.seconds * USED:
        return replace(pace, rate=pace.rate + STEP * period.seconds)
    return pace


def reserve(free: float, size: int, *, now: float, rate: float) -> tuple[float, float]:
    """Time at which a piece of `size` bytes may be sent when the line is free from `free` on; and
    the time from which the line is free afterwards.
    """
    start = max(free, now - BURST)
    return max(now, start), start + size / rate


class MinimumRate:
    """Checks whether a peer sends or receives fast enough: `rate` bytes a second within each
    `window` seconds.

    Only time spent waiting for the peer counts. A rate of 0 disables the check.
    """

    __slots__ = ("_moved", "_rate", "_waited", "_window")

    def __init__(self, rate: int, window: float) -> None:
        self._rate = rate
        self._window = window
        self._moved = 0
        self._waited = 0.0

    @property
    def left(self) -> float | None:
        """Seconds for which the peer may still be waited for; None: no limit."""
        return max(0.0, self._window - self._waited) if self._rate > 0 else None

    def note(self, size: int, seconds: float) -> None:
        """Count `size` bytes, for which the peer was waited for `seconds`."""
        self._moved += size
        self._waited += seconds
        # Enough for this window: a new one begins.
        if self._moved >= self._rate * self._window:
            self._moved, self._waited = 0, 0.0

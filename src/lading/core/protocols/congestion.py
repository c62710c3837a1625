"""How fast much data may pass beside calls that somebody waits for: congestion control by measured
delay.

A process that answers calls, and passes bytes on as well, does the work of neither for itself
alone: each byte gives work to whoever sends it and to whoever reads it, on the same processors. How
long the process has to wait for one of them, when it has something to do, is what its callers feel.
Rules:

- While nobody calls there is no bound.
- While somebody does, all streams that move much have one rate together. In each period in which
  the process waited for longer than a hundredth of it, the rate is halved, but not below what is
  configured. In every other one in which the rate was made use of it is raised, by `STEP` for each
  second: so at 20 MB/s about one period in twenty is one with a wait, and hardly one call in a
  hundred meets it.
- The rate is remembered from one time to the next: it was borne last. So is nothing that was
  measured without a bound.
- A stream may pass a mebibyte at once, and so much a second for ever that somebody who types and
  reads never waits; only the one that wants more takes part (`Allowance`).
- Pieces have their times one after the other (`reserve`): nothing is saved up for longer than a few
  milliseconds, as many pieces at once are work at once, and streams that take turns have equal
  shares.
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
"""Seconds that being given a processor takes when nobody else wants it."""
LOWER = 0.5
STEP = 5e6
USED = 0.5
BURST = 0.002
SPARE = float(1 << 20)
REFILL = float(16 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Bytes a second that were borne last, and whether they are a bound now."""

    rate: float
    is_bound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What there was in so many `seconds`.

    `waited` are the seconds for which the process had something to do and no processor, `turns` how
    often it was given one; `moved` the bytes of the streams that move much; `called` whether
    somebody has called lately (`RECENT`).
    """

    seconds: float
    waited: float
    turns: int
    moved: int
    called: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a stream may still pass on without taking part, as of a moment in seconds."""

    left: float = SPARE
    at: float = 0.0

    @property
    def is_spent(self) -> bool:
        """Whether the stream moves much."""
        return self.left <= 0

    def spend(self, size: int, *, now: float) -> Allowance:
        """What is left when so many bytes are passed on."""
        filled = min(SPARE, max(0.0, self.left) + max(0.0, now - self.at) * REFILL)
        return Allowance(left=filled - size, at=now)


def observe(pace: Pace, seen: Seen, *, least: float) -> Pace:
    """What follows from the last period; the rate is never below `least`."""
    if not seen.called or not pace.is_bound:
        return replace(pace, is_bound=seen.called)
    waited = seen.waited - seen.turns * TURN
    if waited > seen.seconds * TARGET:
        return replace(pace, rate=max(least, pace.rate * LOWER))
    if seen.moved >= pace.rate * seen.seconds * USED:
        return replace(pace, rate=pace.rate + STEP * seen.seconds)
    return pace


def reserve(free: float, size: int, *, now: float, rate: float) -> tuple[float, float]:
    """When a piece of so many bytes may go, where the way is free from `free` on; and from when on
    it is free then.
    """
    start = max(free, now - BURST)
    return max(now, start), start + size / rate

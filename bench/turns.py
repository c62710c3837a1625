"""Contenders that are measured in turns: in each round every one of them has its share, so that all
see the same machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.figures import Figure, absent, durations, percentile

Singles = tuple[list[float], list[float]]
"""Seconds until user code of each, and until the end of each; the latter may be none."""


class Contender(Protocol):
    """One way to run containers."""

    async def burst(self, count: int) -> float:
        """Seconds of `count` at once, or as many at a time as there is room for."""

    async def singles(self, count: int) -> Singles:
        """What so many took, one at a time."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A contender whose functions wait in a thread."""

    on_burst: Callable[[int], float]
    on_singles: Callable[[int], Singles]

    async def burst(self, count: int) -> float:
        """See Contender."""
        return await asyncio.to_thread(self.on_burst, count)

    async def singles(self, count: int) -> Singles:
        """See Contender."""
        return await asyncio.to_thread(self.on_singles, count)


@dataclass
class Entry:
    """A contender, how much of it is measured in a round, and what was measured; seconds, and
    containers a second.

    `single` and `many` name its rows; with a count of 0 there is no such row. `contender` is None
    where it cannot be measured, for the reason in `note`.
    """

    single: str
    many: str
    contender: Contender | None
    samples: int
    burst: int
    note: str = ""
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    async def take_turn(self) -> None:
        """One round of it."""
        if self.contender is None:
            return
        if self.burst:
            self.rates.append(self.burst / await self.contender.burst(self.burst))
        if self.samples:
            starts, ends = await self.contender.singles(self.samples)
            self.starts += starts
            self.ends += ends

    def figures(self) -> list[Figure]:
        """Its rows."""
        if self.contender is None:
            return [absent(self.single, self.note)]
        rows = []
        if self.starts:
            rows.append(durations(f"{self.single}, to user code", self.starts, note=self.note))
        if self.ends:
            rows.append(durations(f"{self.single}, to the end", self.ends))
        if self.rates:
            rows.append(rate(self.many, self.rates, self.burst, note=self.note))
        return rows


def rate(
    name: str, rates: Sequence[float], burst: int, *, note: str = "", least: float | None = None
) -> Figure:
    """A row of the median rate of rounds of `burst` each; `least` is the promise."""
    median = percentile(rates, 0.5)
    spread = f"{len(rates)} rounds, {min(rates):.1f} to {max(rates):.1f} /s"
    return Figure(
        name=name,
        unit="/s",
        count=len(rates) * burst,
        rate=median,
        target="" if least is None else f">= {least:g} /s",
        met=None if least is None else median >= least,
        note=f"{note}; {spread}" if note else spread,
    )


def share(name: str, ours: Sequence[float], theirs: Sequence[float], *, least: float) -> Figure:
    """A row of the median of our rate in percent of theirs, round by round; `least` (percent) is
    the promise. Raises ValueError for no rounds.
    """
    shares = [100 * mine / other for mine, other in zip(ours, theirs, strict=True)]
    median = percentile(shares, 0.5)
    return Figure(
        name=name,
        unit="%",
        count=len(shares),
        rate=median,
        target=f">= {least:g} %",
        met=median >= least,
        note=f"round by round {min(shares):.0f} to {max(shares):.0f} %",
    )


async def take_turns(entries: Sequence[Entry], rounds: int) -> None:
    """Measure all, so many rounds; each begins with another one."""
    for number in range(rounds):
        first = number % len(entries)
        for one in (*entries[first:], *entries[:first]):
            await one.take_turn()

"""Samples and what is said about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the report. `target` is what the project promises, `met` whether it was kept
    (None: no promise).

    `server`, `database` and `client` are milliseconds of processor time for each thing done.
    """

    name: str
    unit: str
    count: int
    p50: float | None = None
    p99: float | None = None
    rate: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""
    server: float | None = None
    database: float | None = None
    client: float | None = None


class Calls(Protocol):
    """Calls that were made: how long each took and all of them together, and whose processor time
    it cost (seconds).
    """

    seconds: float
    latencies: list[float]
    server: float
    database: float
    client: float


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least `share` (0 to 1) of all samples do not exceed. Raises
    ValueError for none.
    """
    if not samples:
        raise ValueError("no samples")
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def durations(
    name: str,
    seconds: Sequence[float],
    *,
    note: str = "",
    p50_limit: float | None = None,
    p99_limit: float | None = None,
) -> Figure:
    """A row of durations, shown in milliseconds; `p50_limit` and `p99_limit` (milliseconds) are the
    promises.
    """
    half, most = percentile(seconds, 0.5) * 1000, percentile(seconds, 0.99) * 1000
    wanted = (("p50", half, p50_limit), ("p99", most, p99_limit))
    limits = [(which, found, limit) for which, found, limit in wanted if limit is not None]
    return Figure(
        name=name,
        unit="ms",
        count=len(seconds),
        p50=half,
        p99=most,
        target=", ".join(f"{which} <= {limit:g} ms" for which, _, limit in limits),
        met=all(found <= limit for _, found, limit in limits) if limits else None,
        note=note,
    )


def throughput(
    name: str, count: int, seconds: float, *, note: str = "", least: float | None = None
) -> Figure:
    """A row of things per second; `least` is the promise."""
    rate = count / seconds
    return Figure(
        name=name,
        unit="/s",
        count=count,
        rate=rate,
        target="" if least is None else f">= {least:g} /s",
        met=None if least is None else rate >= least,
        note=note,
    )


def calls(
    name: str,
    run: Calls,
    *,
    least: float | None = None,
    p99_limit: float | None = None,
    done: int | None = None,
    note: str = "",
) -> Figure:
    """A row of calls. The promises: `least` a second, and `p99_limit` milliseconds; `done` counts
    those that matter.
    """
    count = len(run.latencies) if done is None else done
    rate, most = count / run.seconds, percentile(run.latencies, 0.99) * 1000
    promises = [] if least is None else [(f">= {least:g} /s", rate >= least)]
    if p99_limit is not None:
        promises.append((f"p99 < {p99_limit:g} ms", most < p99_limit))
    return Figure(
        name=name,
        unit="calls",
        count=count,
        p50=percentile(run.latencies, 0.5) * 1000,
        p99=most,
        rate=rate,
        target=", ".join(text for text, _ in promises),
        met=all(kept for _, kept in promises) if promises else None,
        note=note,
        server=run.server / count * 1000,
        database=run.database / count * 1000,
        client=run.client / count * 1000,
    )


def absent(name: str, why: str) -> Figure:
    """A row for what could not be measured here."""
    return Figure(name=name, unit="", count=0, note=why)

"""Samples and what is said about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the report. `target` is what the project promises, `met` whether it was kept (None: no promise)."""

    name: str
    unit: str
    count: int
    p50: float | None = None
    p99: float | None = None
    rate: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least `share` (0 to 1) of all samples do not exceed. Raises ValueError for none."""
    if not samples:
        raise ValueError("no samples")
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def durations(name: str, seconds: Sequence[float], *, note: str = "", p50_limit: float | None = None) -> Figure:
    """A row of durations, shown in milliseconds; `p50_limit` (milliseconds) is the promise."""
    half, most = percentile(seconds, 0.5) * 1000, percentile(seconds, 0.99) * 1000
    return Figure(
        name=name,
        unit="ms",
        count=len(seconds),
        p50=half,
        p99=most,
        target="" if p50_limit is None else f"p50 <= {p50_limit:g} ms",
        met=None if p50_limit is None else half <= p50_limit,
        note=note,
    )


def throughput(name: str, count: int, seconds: float, *, note: str = "", least: float | None = None) -> Figure:
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


def absent(name: str, why: str) -> Figure:
    """A row for what could not be measured here."""
    return Figure(name=name, unit="", count=0, note=why)

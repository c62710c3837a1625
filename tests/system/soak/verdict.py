"""The verdict over a soak: bounds on growth, stated, and the faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.system.soak.samples import LASTING, MIB, Sample, growth

RESTLESS: Final = 2 / 3
"""Share of a run in which processes of long life are killed. The rest shows their growth: a server
fills bounded caches for its first 4,000 requests, so a life of ten minutes shows little else.
"""
SETTLING: Final = 300.0
"""Seconds of each process' life that are left out: its caches fill."""
ENOUGH: Final = 300.0
"""Seconds of processes' lives that a slope needs; less is not judged."""
MEMORY_BOUND: Final = 24.0
"""MiB an hour that the resident memory of a role may grow."""
FILES_BOUND: Final = 20.0
"""Open files an hour that a role may gain."""
SUPERVISOR_BOUND: Final = 128.0
"""MiB that one supervisor may hold."""


def judge(samples: Sequence[Sample]) -> tuple[list[str], list[str]]:
    """Lines of the table of slopes, and faults. The slopes are those of the last part of the run,
    in which no process of long life is killed.
    """
    lines, faults = list[str](), list[str]()
    calm = samples[-1].at * RESTLESS if samples else 0.0
    last = [one for one in samples if one.at >= calm]
    for role in LASTING:
        for quantity, unit, scale, bound in (
            ("resident", "MiB", MIB, MEMORY_BOUND),
            ("files", "files", 1, FILES_BOUND),
        ):
            found = growth(last, role, quantity, settling=SETTLING)
            slope = found.per_hour / scale
            judged = found.seconds >= ENOUGH
            words = (
                f"{slope:+8.1f} {unit}/h, bound {bound:g}" if judged else "not judged: too short"
            )
            lines.append(
                f"  {role:<12}{quantity:<9}{words} ({found.seconds:.0f} s of its processes' lives)"
            )
            if judged and slope > bound:
                faults.append(
                    f"{role}: {quantity} grows by {slope:.1f} {unit} an hour, more than {bound:g}"
                )
    largest = max((one.resident("supervisor") for one in last), default=0) / MIB
    lines.append(
        f"  {'supervisor':<12}{'resident':<9}{largest:8.1f} MiB at most, bound {SUPERVISOR_BOUND:g}"
    )
    if largest > SUPERVISOR_BOUND:
        faults.append(f"a supervisor held {largest:.1f} MiB, more than {SUPERVISOR_BOUND:g}")
    return lines, faults

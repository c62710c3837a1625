"""The table for people and the JSON for machines."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Figure

_HEADINGS = ("what", "n", "p50", "p99", "per second", "promise", "")


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned columns, notes below."""
    rows = [_HEADINGS, *(_row(one) for one in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [_line(row, widths) for row in rows]
    notes = [f"{one.name}: {one.note}" for one in figures if one.note]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], *([""] if notes else []), *notes])


def write(path: Path, figures: Sequence[Figure], *, now: datetime) -> None:
    """The figures with the machine they were measured on."""
    machine = {
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    content = {
        "measured_at": now.astimezone(UTC).isoformat(),
        "machine": machine,
        "figures": [asdict(one) for one in figures],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def _row(one: Figure) -> tuple[str, ...]:
    promise = {None: "", True: "kept", False: "BROKEN"}[one.met]
    rate = "" if one.rate is None else f"{one.rate:.1f}"
    return one.name, str(one.count or ""), _time(one.p50), _time(one.p99), rate, one.target, promise


def _time(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:.1f} ms"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if column in (0, 5, 6) else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()

"""The table for people and the JSON for machines."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.figure_tables import fill
from bench.figures import Figure
from bench.picture import draw

_HEADINGS = ("what", "n", "p50", "p99", "rate", "server", "database", "client", "promise", "")
_LEFT = (0, 8, 9)


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned columns, notes below."""
    rows = [_HEADINGS, *(_row(one) for one in figures)]
    # Columns that nothing stands in are left out.
    used = [
        column
        for column in range(len(_HEADINGS))
        if column in (0, 9) or any(row[column] for row in rows[1:])
    ]
    rows = [tuple(row[column] for column in used) for row in rows]
    left = [number for number, column in enumerate(used) if column in _LEFT]
    widths = [max(len(row[column]) for row in rows) for column in range(len(used))]
    lines = [_line(row, widths, left) for row in rows]
    notes = [f"{one.name}: {one.note}" for one in figures if one.note]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], *([""] if notes else []), *notes])


def write(path: Path, figures: Sequence[Figure], *, now: datetime) -> None:
    """The figures with the machine they were measured on."""
    content = {
        "measured_at": now.astimezone(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "figures": [asdict(one) for one in figures],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def keep(folder: Path, part: str, figures: Sequence[Figure], *, now: datetime) -> None:
    """Write the figures of a part to `PART.json` in a folder of figures that are kept, the picture
    of those of containers beside them, and their table into the page `performance.md` above.
    """
    path, page = folder / f"{part}.json", folder.parent / "performance.md"
    write(path, figures, now=now)
    content = json.loads(path.read_text())
    if part == "containers":
        (folder / "pace.svg").write_text(draw(content))
    if page.exists():
        page.write_text(fill(page.read_text(), part, content))


def describe_machine() -> dict[str, object]:
    """The kind of machine: what decides its figures, and nothing that tells which one it is."""
    processors = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return {
        "kind": f"{processors} cores, {memory:.0f} GiB, {system}, "
        f"kernel {platform.release().partition('-')[0]}, Python {platform.python_version()}",
        "processors": processors,
        "memory_gib": round(memory, 1),
        "system": system,
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "load": round(os.getloadavg()[2], 1),
    }


def _row(one: Figure) -> tuple[str, ...]:
    promise = {None: "", True: "kept", False: "BROKEN"}[one.met]
    rate = "" if one.rate is None else f"{one.rate:.1f} {one.unit}"
    spent = [_time(value or None, 2) for value in (one.server, one.database, one.client)]
    return (
        one.name,
        str(one.count or ""),
        _time(one.p50),
        _time(one.p99),
        rate,
        *spent,
        one.target,
        promise,
    )


def _time(milliseconds: float | None, digits: int = 1) -> str:
    return "" if milliseconds is None else f"{milliseconds:.{digits}f} ms"


def _line(row: Sequence[str], widths: Sequence[int], left: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if column in left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()

"""Rows of run times of tools, and of expected starts with their errors.

- `run_times` has the latest 32 run times of each tool, the newest first, in hundredths of a second:
  ten digits and a comma each, so that one statement adds one and drops the oldest.
- `expected_starts` has a row for each waiting container whose start was expected; `start_errors`
  has the errors of the latest 100, in the same form, in hundredths of a per cent.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lading.core.records.container_types import CONTAINERS
from lading.core.records.schema import Record
from lading.core.scheduling.expected_times import MOST_ERRORS, Tool
from lading.store import records
from lading.store.database import Deferred, Transaction

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS run_times (user_uuid TEXT NOT NULL, program TEXT NOT NULL,"
    " image TEXT NOT NULL, size_class INTEGER NOT NULL, seconds TEXT NOT NULL,"
    " learned_at TEXT NOT NULL, PRIMARY KEY (user_uuid, program, image, size_class))",
    "CREATE TABLE IF NOT EXISTS expected_starts (container_uuid TEXT PRIMARY KEY,"
    " noted_at TEXT NOT NULL, wait DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS start_errors (id INTEGER PRIMARY KEY, errors TEXT NOT NULL)",
)
_RUNS: Final = 32
# Digits of a number, and its comma.
_WIDTH: Final = 11
_TOP: Final = 10**10 - 1
MOST_QUEUE: Final = 200
"""Containers that are read for one expectation: as many that run, and as many that wait."""


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """The wait of a container from `noted_at` on, in seconds, as it was expected."""

    container_uuid: str
    noted_at: str
    wait: float


async def keep(tx: Transaction, tool: Tool, seconds: float, *, now: str) -> None:
    """Add the time of a run of a tool."""
    sql = (
        "INSERT INTO run_times (user_uuid, program, image, size_class, seconds, learned_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (user_uuid, program, image, size_class)"
        " DO UPDATE SET learned_at = excluded.learned_at,"
        f" seconds = substr(excluded.seconds || run_times.seconds, 1, {_RUNS * _WIDTH})"
    )
    row = (tool.user_uuid, tool.program, tool.image, tool.size_class)
    # With other changes of the block: the end of a container takes no further round trip.
    await tx.defer(Deferred(sql=sql, values=(*row, _written(seconds), now), row=f"run_times {row}"))


async def find(tx: Transaction, tool: Tool) -> list[float]:
    """The times of a tool in seconds, the newest first: with inputs of its size, or else of the
    nearest one.
    """
    rows = await tx.fetch(
        "SELECT seconds FROM run_times WHERE user_uuid = ? AND program = ? AND image = ?"
        " ORDER BY abs(size_class - ?) LIMIT 1",
        (tool.user_uuid, tool.program, tool.image, tool.size_class),
    )
    return _read(str(rows[0][0])) if rows else []


async def find_all(
    tx: Transaction, tools: Collection[tuple[str, str]]
) -> Mapping[tuple[str, str], list[float]]:
    """The times of programs in seconds, by user and program, whatever image and size."""
    if not tools:
        return {}
    marks = ", ".join("(?, ?)" for _ in tools)
    rows = await tx.fetch(
        f"WITH wanted (user_uuid, program) AS (VALUES {marks})"
        " SELECT r.user_uuid, r.program, r.seconds FROM wanted JOIN run_times r"
        " ON r.user_uuid = wanted.user_uuid AND r.program = wanted.program LIMIT 1000",
        tuple(value for tool in tools for value in tool),
    )
    found: dict[tuple[str, str], list[float]] = {}
    for user, program, seconds in rows:
        found.setdefault((str(user), str(program)), []).extend(_read(str(seconds)))
    return found


async def forget(tx: Transaction, *, before: str) -> int:
    """Delete the times of tools that did not run since a time, and expectations that nothing came
    of; the number of the former.
    """
    await tx.execute("DELETE FROM expected_starts WHERE noted_at < ?", (before,))
    return await tx.execute("DELETE FROM run_times WHERE learned_at < ?", (before,))


async def running(tx: Transaction) -> list[Record]:
    """Containers that run, up to a number."""
    return await records.selected(tx, CONTAINERS, " WHERE state = 'Running' LIMIT ?", (MOST_QUEUE,))


async def waiting_before(tx: Transaction, priority: int, created_at: str) -> list[Record]:
    """The containers that wait before this place, in order, up to a number."""
    return await records.selected(
        tx,
        CONTAINERS,
        # Of a long queue only the keys are sorted. The first condition is that of the index.
        " WHERE uuid IN (SELECT uuid FROM containers"
        " WHERE state = 'Queued' AND priority >= ? AND (priority > ? OR created_at < ?)"
        " ORDER BY priority DESC, created_at LIMIT ?) ORDER BY priority DESC, created_at",
        (priority, priority, created_at, MOST_QUEUE),
    )


async def note_starts(tx: Transaction, expected: Collection[ExpectedStart]) -> None:
    """Keep the first expectation about each container."""
    for start in expected:
        await tx.execute(
            "INSERT INTO expected_starts (container_uuid, noted_at, wait) VALUES (?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (start.container_uuid, start.noted_at, start.wait),
        )


async def are_expected(tx: Transaction, container_uuids: Sequence[str]) -> bool:
    """Whether there is an expectation about any of these containers."""
    marks = ", ".join("?" for _ in container_uuids)
    return bool(
        await tx.fetch(
            f"SELECT 1 FROM expected_starts WHERE container_uuid IN ({marks}) LIMIT 1",
            tuple(container_uuids),
        )
    )


async def take_starts(
    tx: Transaction, container_uuids: Sequence[str]
) -> list[tuple[ExpectedStart, str]]:
    """Remove the expectations about containers; each with the state of its container, or ""."""
    marks = ", ".join("?" for _ in container_uuids)
    rows = await tx.fetch(
        "SELECT e.container_uuid, e.noted_at, e.wait, c.state FROM expected_starts e"
        " LEFT JOIN containers c ON c.uuid = e.container_uuid"
        f" WHERE e.container_uuid IN ({marks})",
        tuple(container_uuids),
    )
    if rows:
        await tx.execute(
            f"DELETE FROM expected_starts WHERE container_uuid IN ({marks})",
            tuple(container_uuids),
        )
    return [
        (ExpectedStart(str(row[0]), str(row[1]), float(row[2] or 0)), str(row[3] or ""))
        for row in rows
    ]


async def keep_errors(tx: Transaction, errors: Collection[float]) -> None:
    """Add errors of expected starts, from 0 to 1."""
    if not errors:
        return
    await tx.execute(
        "INSERT INTO start_errors (id, errors) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET"
        f" errors = substr(excluded.errors || start_errors.errors, 1, {MOST_ERRORS * _WIDTH})",
        ("".join(_written(100 * error) for error in errors),),
    )


async def errors(tx: Transaction) -> list[float]:
    """The errors of the latest expected starts."""
    rows = await tx.fetch("SELECT errors FROM start_errors WHERE id = 1")
    return [percent / 100 for percent in _read(str(rows[0][0]))] if rows else []


def _written(amount: float) -> str:
    return f"{min(_TOP, max(0, round(100 * amount))):010d},"


def _read(percents: str) -> list[float]:
    return [int(digits) / 100 for digits in percents.split(",") if digits]

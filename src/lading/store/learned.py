"""Rows of amounts that containers of a tool needed (`core.containers.attempts.learned`)."""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection

from lading.core.containers.attempts.learned import Lesson
from lading.core.scheduling.expected_times import Tool
from lading.store.database import Transaction

TABLES = (
    "CREATE TABLE IF NOT EXISTS learned_amounts (user_uuid TEXT NOT NULL, program TEXT NOT NULL,"
    " image TEXT NOT NULL, size_class INTEGER NOT NULL, ram BIGINT NOT NULL,"
    " disk_factor DOUBLE PRECISION NOT NULL, container_uuid TEXT NOT NULL,"
    " learned_at TEXT NOT NULL, PRIMARY KEY (user_uuid, program, image, size_class))",
)


async def keep(tx: Transaction, tool: Tool, lesson: Lesson, *, now: str) -> None:
    """Store a lesson, in place of an earlier one; an amount that it does not know stays."""
    await tx.execute(
        "INSERT INTO learned_amounts (user_uuid, program, image, size_class, ram, disk_factor,"
        " container_uuid, learned_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (user_uuid, program, image, size_class) DO UPDATE SET"
        " ram = CASE WHEN excluded.ram > 0 THEN excluded.ram ELSE learned_amounts.ram END,"
        " disk_factor = CASE WHEN excluded.disk_factor > 0 THEN excluded.disk_factor"
        " ELSE learned_amounts.disk_factor END,"
        " container_uuid = excluded.container_uuid, learned_at = excluded.learned_at",
        (
            tool.user_uuid,
            tool.program,
            tool.image,
            tool.size_class,
            lesson.ram,
            lesson.disk_factor,
            lesson.container_uuid,
            now,
        ),
    )


async def find(tx: Transaction, tool: Tool) -> list[Lesson]:
    """The lessons about a tool, with inputs of its size or smaller ones."""
    rows = await tx.fetch(
        "SELECT ram, disk_factor, container_uuid FROM learned_amounts"
        " WHERE user_uuid = ? AND program = ? AND image = ? AND size_class <= ?"
        " ORDER BY size_class",
        (tool.user_uuid, tool.program, tool.image, tool.size_class),
    )
    return [Lesson(int(row[0] or 0), float(row[1] or 0), str(row[2])) for row in rows]


async def forget(tx: Transaction, *, before: str) -> int:
    """Delete lessons that were learned before a time; how many."""
    return await tx.execute("DELETE FROM learned_amounts WHERE learned_at < ?", (before,))


async def input_size(tx: Transaction, hashes: Collection[str]) -> int:
    """Bytes of the files of the collections with these hashes; 0 for one that is not there."""
    if not hashes:
        return 0
    rows = await tx.fetch(
        f"WITH wanted (pdh) AS (VALUES {', '.join('(?)' for _ in hashes)})"
        " SELECT (SELECT c.file_size_total FROM collections c"
        " WHERE c.portable_data_hash = wanted.pdh LIMIT 1) FROM wanted",
        tuple(hashes),
    )
    return sum(int(row[0] or 0) for row in rows)

"""Copies of a database: from SQLite to an empty PostgreSQL database, and snapshots of SQLite.

- To PostgreSQL all records are copied in one transaction. Stored values are copied unchanged.
  Sealed values stay readable, since their key belongs to the installation.
- A snapshot is a copy of one committed state of a file in use, and is checked.
"""

# ruff: noqa: S608 - names are those of our tables, values go into placeholders

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from lading.core.errors import Conflict, Corrupt, Invalid, Unavailable
from lading.core.records.record_types import RECORDS
from lading.core.values import has_nul
from lading.store.database import Row, Transaction
from lading.store.databases.sqlite_faults import translate

if TYPE_CHECKING:
    from lading.store.databases.postgres import PostgresDatabase
    from lading.store.databases.sqlite import SqliteDatabase

TABLES: Final = (
    *(kind.plural for kind in RECORDS if kind.stored),
    "request_dependencies",
    "container_inputs",
    "container_attempts",
    "learned_amounts",
    "run_times",
    "expected_starts",
    "start_errors",
    "fair_accounts",
    "fair_tickets",
    "task_transfers",
    "task_deliveries",
    "task_keys",
    "quota_charges",
    "quota_waits",
    "quota_spending",
    "webhook_positions",
    "webhook_letters",
    "webhook_attempts",
    "run_ends",
    "allocations",
    "memberships",
    "grants",
    "group_standing",
    "cancellations",
    "cascades",
)
LEFT: Final = (
    "schema_versions",
    "scheduling_statuses",
    "dispatchers",
    "dispatcher_leases",
    "lease_ids",
    "machine_reports",
    "machine_orders",
)
"""Tables that are not copied: the new database has its own."""
# Rows per statement, at most; fewer for tables with many columns.
_BATCH: Final = 500
# Placeholders per statement; asyncpg allows 32767.
_MOST_VALUES: Final = 30_000
# Pages copied between two calls of `progress`: 8 MiB with pages of 4 KiB.
_PAGES: Final = 2048
# Seconds that the copy waits for a lock.
_PATIENCE: Final = 30.0


async def copy_records(
    source: SqliteDatabase, target: PostgresDatabase, *, progress: Callable[[int, int], None]
) -> dict[str, int]:
    """Copy all tables; return the number of rows of each. `progress(done, total)` counts rows.

    Both databases are prepared and not in use. Raises Conflict when the target has records.
    """
    copied: dict[str, int] = {}
    async with source.reading() as old, target.writing() as new:
        for table in TABLES:
            if await _count(new, table):
                raise Conflict(
                    f"the PostgreSQL database has {table} already; make a new, empty one"
                )
        total = sum([await _count(old, table) for table in TABLES])
        for table in TABLES:
            names = [str(row[0]) for row in await old.fetch(source.dialect.columns, (table,))]
            copied[table] = 0
            async for rows in _batches(old, table, names):
                await _insert(new, table, names, rows)
                copied[table] += len(rows)
                progress(sum(copied.values()), total)
        # Identity columns continue after the copied numbers; inserted values do not move them.
        for kind in RECORDS:
            if kind.numbered:
                number = f"pg_get_serial_sequence('{kind.plural}', 'id')"
                await new.fetch(
                    f"SELECT setval({number}, max(id)) FROM {kind.plural}"
                    " HAVING max(id) IS NOT NULL"
                )
    return copied


async def _count(tx: Transaction, table: str) -> int:
    return int((await tx.fetch(f"SELECT count(*) FROM {table}"))[0][0] or 0)


async def _batches(tx: Transaction, table: str, names: Sequence[str]) -> AsyncIterator[list[Row]]:
    size, last = min(_BATCH, _MOST_VALUES // len(names)), 0
    while True:
        rows = await tx.fetch(
            # By rowid: no offset, so each batch takes the same time.
            f"SELECT rowid, {', '.join(names)} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?",
            (last, size),
        )
        if not rows:
            return
        last = int(rows[-1][0] or 0)
        yield [row[1:] for row in rows]


async def _insert(tx: Transaction, table: str, names: Sequence[str], rows: Sequence[Row]) -> None:
    marks = f"({', '.join('?' for _ in names)})"
    values = [value for row in rows for value in row]
    try:
        await tx.execute(
            f"INSERT INTO {table} ({', '.join(names)}) VALUES {', '.join([marks] * len(rows))}",
            values,
        )
    except Invalid as error:
        raise next(_with_nul(table, names, rows), error) from error


def _with_nul(table: str, names: Sequence[str], rows: Iterable[Row]) -> Iterator[Invalid]:
    """Errors for values with a NUL character, which SQLite stored for earlier versions of Lading
    and PostgreSQL refuses.
    """
    for row in rows:
        for name, value in zip(names, row, strict=True):
            if isinstance(value, str) and _has_nul(value):
                label = str(dict(zip(names, row, strict=True)).get("uuid") or table)
                yield Invalid(
                    f"{label}: {name} has a NUL character, which PostgreSQL does not store;"
                    f" nothing was moved. Start 'lading up' with SQLite, write {name} without it"
                    " (PUT of the record, docs/api.md) or delete the record, and move again"
                )


def _has_nul(stored: str) -> bool:
    """Whether a stored text, or the JSON that it is, has a NUL character."""
    if "\\u0000" not in stored or not stored.startswith(("{", "[")):
        return "\0" in stored
    with suppress(msgspec.DecodeError):
        return has_nul(msgspec.json.decode(stored))
    return False


def copy_database(source: Path, target: Path, *, progress: Callable[[int, int], None]) -> None:
    """Copy the committed state to `target`, a new file; `progress(done, total)` counts bytes.

    Raises Unavailable, Full or Corrupt as the database does.
    """
    if not source.exists():
        raise Unavailable(f"{source}: no database here; is this the right --data?")
    try:
        with closing(_open(source)) as reader, closing(sqlite3.connect(target)) as copy:
            size = reader.execute("PRAGMA page_size").fetchone()[0]
            # One read transaction around the copy: otherwise each change by another process would
            # restart it.
            reader.execute("BEGIN")
            # BEGIN alone takes no snapshot; the first read does.
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            reader.backup(
                copy,
                pages=_PAGES,
                progress=lambda _, left, total: progress((total - left) * size, total * size),
            )
            reader.execute("ROLLBACK")
            # Leases of dispatchers are not records: the copy is served with other dispatchers.
            # Databases older than this table do not have it.
            with suppress(sqlite3.OperationalError):
                copy.execute("DELETE FROM dispatcher_leases")
                copy.execute("DELETE FROM lease_ids")
                copy.commit()
            # One file, without a log beside it.
            copy.execute("PRAGMA journal_mode = delete")
    except sqlite3.Error as error:
        raise translate(source, error) from error


def check_database(path: Path) -> None:
    """Check the whole file. Raises Corrupt when the check fails."""
    try:
        with closing(_open(path)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
    except sqlite3.Error as error:
        raise Corrupt(f"{path}: not a sound database ({error})") from error
    if found != ["ok"]:
        raise Corrupt(f"{path}: not a sound database ({found[0]})")


def manifests(path: Path) -> Iterator[str]:
    """The manifests of all collections in a file."""
    with closing(_open(path)) as connection:
        for (manifest,) in connection.execute("SELECT manifest_text FROM collections"):
            yield manifest or ""


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_PATIENCE
    )

"""A million rows into a database in minutes: tables without indexes first, the indexes of the
schema afterwards.
"""

from __future__ import annotations

import itertools
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import asyncpg

from bench.api import people, templates
from bench.api.sample import Site
from bench.api.templates import Bulk
from lading.store import schema
from lading.store.databases.postgres import PostgresDatabase
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite import SqliteDatabase

_AT_ONCE: Final = 20_000
_DURABLE_LATER: Final = (
    "journal_mode = off",
    "synchronous = off",
    "cache_size = -1000000",
    "temp_store = memory",
)


async def fill_sqlite(path: Path, site: Site, seal: Seal, count: int) -> None:
    """Make the database in one file."""
    database = SqliteDatabase(path, seal=seal)
    await schema.prepare(database, now=templates.created_at(0))
    await people.settle(database, site)
    await database.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = delete")
    for pragma in _DURABLE_LATER:
        connection.execute(f"PRAGMA {pragma}")
    for bulk in await templates.bulks(site, seal, count):
        indexes = connection.execute(
            "SELECT name, sql FROM sqlite_master"
            " WHERE tbl_name = ? AND type = 'index' AND sql IS NOT NULL",
            (bulk.kind.plural,),
        ).fetchall()
        with _without(connection, indexes):
            marks = ", ".join("?" for _ in bulk.columns)
            sql = f"INSERT INTO {bulk.kind.plural} ({', '.join(bulk.columns)}) VALUES ({marks})"
            connection.execute("BEGIN")
            connection.executemany(sql, _counted(bulk))
            connection.execute("COMMIT")
    connection.close()


async def fill_postgres(where: Mapping[str, str | int], site: Site, seal: Seal, count: int) -> None:
    """Make the tables in an empty database."""
    database = await PostgresDatabase.open(where, seal=seal)
    await schema.prepare(database, now=templates.created_at(0))
    await people.settle(database, site)
    await database.close()
    connection = await asyncpg.connect(
        host=where["host"], port=where["port"], user=where["user"], database=where["dbname"]
    )
    await connection.execute("SET synchronous_commit = off; SET maintenance_work_mem = '1GB'")
    for bulk in await templates.bulks(site, seal, count):
        indexes = await connection.fetch(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = $1 AND indexname "
            "NOT LIKE '%pkey' AND indexname NOT LIKE '%uuid_key'",
            bulk.kind.plural,
        )
        for name, _ in indexes:
            await connection.execute(f"DROP INDEX {name}")
        rows = _counted(bulk)
        while part := list(itertools.islice(rows, _AT_ONCE)):
            await connection.copy_records_to_table(
                bulk.kind.plural, records=part, columns=bulk.columns
            )
        for _, definition in indexes:
            await connection.execute(definition)
    await connection.execute("VACUUM (ANALYZE)")
    await connection.execute("CHECKPOINT")
    await connection.close()


@contextmanager
def _without(connection: sqlite3.Connection, indexes: Sequence[tuple[str, str]]) -> Iterator[None]:
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    yield
    for _, definition in indexes:
        connection.execute(definition)


def _counted(bulk: Bulk) -> Iterator[tuple[object, ...]]:
    """The rows, with a line about how far it has come."""
    for number, row in enumerate(bulk.rows):
        if number % 100_000 == 0 and sys.stderr.isatty():
            print(
                f"\rfilling {bulk.kind.plural}: {number * 100 // bulk.count} %   ",
                end="",
                file=sys.stderr,
            )
        yield row

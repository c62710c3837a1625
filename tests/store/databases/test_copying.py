"""Records copied from SQLite to PostgreSQL; that they stay the same is shown in
tests/wiring/test_sqlite_to_postgres.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Conflict
from lading.core.records.record_types import LOGS, WORKFLOWS
from lading.store import records, schema
from lading.store.databases.copying import LEFT, TABLES, copy_records
from lading.store.databases.postgres import PostgresDatabase
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal
from tests.postgres import PostgresServer


async def test_more_rows_than_fit_into_one_statement(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    source = SqliteDatabase(tmp_path / "db", seal=make_seal())
    target = await PostgresDatabase.open(await postgres.fresh(), seal=make_seal())
    for database in (source, target):
        await schema.prepare(database, now="now")
    async with source.writing() as tx:
        for number in range(1201):
            await records.insert(
                tx, WORKFLOWS, {"uuid": f"{number:04d}", "definition": "é" * 10, "name": None}
            )
        await records.insert(tx, LOGS, {"uuid": "l", "properties": {"text": "Grüße ✓"}})
    copied = await copy_records(source, target, progress=lambda done, total: None)
    assert (copied["workflows"], copied["logs"], copied["users"]) == (1201, 1, 0)
    async with target.writing() as tx:
        found = await records.find(tx, target.dialect, WORKFLOWS, ())
        assert sorted(row["uuid"] for row in found) == [f"{number:04d}" for number in range(1201)]
        assert await records.insert(tx, LOGS, {"uuid": "next"}) == 2
    with pytest.raises(Conflict, match="has workflows already"):
        await copy_records(source, target, progress=lambda done, total: None)
    await source.close()
    await target.close()


async def test_every_table_is_copied_or_left_on_purpose(tmp_path: Path) -> None:
    source = SqliteDatabase(tmp_path / "db", seal=make_seal())
    await schema.prepare(source, now="now")
    async with source.reading() as tx:
        names = {
            str(row[0])
            for row in await tx.fetch("SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
    await source.close()
    assert {name for name in names if not name.startswith("sqlite_")} == {*TABLES, *LEFT}

"""Databases of earlier versions, with data in them, become present ones: on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.core.filters import check_filters
from lading.core.records import COLLECTIONS, CONTAINERS, LOGS, RECORDS
from lading.store import migrations, records, schema
from lading.store.database import Database
from lading.store.postgres import PostgresDatabase
from lading.store.sqlite import SqliteDatabase
from lading.testing.sealing import make_seal
from tests.postgres import PostgresServer

SCHEMAS = Path(__file__).with_name("schemas")
STORED = {
    "users": 3,
    "api_client_authorizations": 5,
    "collections": 8,
    "container_requests": 2,
    "containers": 2,
    "links": 1,
}


@pytest.fixture(params=sorted(SCHEMAS.glob("*.sql")), ids=lambda path: path.stem)
async def older(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """A database as a release left it."""
    text = request.param.read_text()
    if request.param.stem.startswith("sqlite"):
        with sqlite3.connect(tmp_path / "db") as connection:
            connection.executescript(text)
        connection.close()
        made: Database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        where = await server.fresh()
        await server.sql(text, str(where["dbname"]))
        made = await PostgresDatabase.open(where, seal=make_seal())
    yield made
    await made.close()


async def test_an_older_database_with_data_becomes_a_present_one(older: Database) -> None:
    for _ in range(2):
        await schema.prepare(older, now="now")
    async with older.reading() as tx:
        steps = await tx.fetch("SELECT version, name FROM schema_versions ORDER BY version")
        found = {kind.plural: await records.find(tx, older.dialect, kind, ()) for kind in RECORDS if kind.stored}
        where = check_filters([["properties.list", "contains", 1], ["name", "=", "O'Neill"]], COLLECTIONS)
        assert len(await records.find(tx, older.dialect, COLLECTIONS, where)) == 1
    assert steps[-1] == (migrations.VERSION, migrations.MIGRATIONS[-1].name)
    assert all(name for _, name in steps)
    assert {plural: len(found[plural]) for plural in STORED} == STORED
    assert [row["properties"] for row in found["logs"] if row["event_type"] == "note"] == [{"text": "Grüße ✓"}]


async def test_work_goes_on_in_it(older: Database) -> None:
    await schema.prepare(older, now="now")
    async with older.writing() as tx:
        last = (await tx.fetch("SELECT max(id) FROM logs"))[0][0]
        assert await records.insert(tx, LOGS, {"uuid": "new"}) > int(last or 0)
        running = await records.matching(tx, CONTAINERS, state="Queued")
        assert await records.update(
            tx, CONTAINERS, running[0]["uuid"], {"priority": 1 << 60}, expected={"exit_code": None}
        )


async def test_a_later_database_is_refused(database: Database) -> None:
    async with database.writing() as tx:
        await tx.execute("INSERT INTO schema_versions (version, applied_at) VALUES (99, 'later')")
    try:
        with pytest.raises(Invalid, match="of version 99") as caught:
            await schema.prepare(database, now="now")
        assert "\n" not in str(caught.value)
    finally:
        async with database.writing() as tx:
            await tx.execute("DELETE FROM schema_versions WHERE version = 99")


def test_steps_are_ordered_and_named() -> None:
    numbers = [one.number for one in migrations.MIGRATIONS]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len({one.name for one in migrations.MIGRATIONS}) == len(numbers)

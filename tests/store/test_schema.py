"""Tables from record types; older databases are brought up to date."""

from __future__ import annotations

from pathlib import Path

from lading.core.records.container_types import CONTAINERS
from lading.core.records.record_types import LINKS, LOGS
from lading.store import records, schema
from lading.store.databases.sqlite import SqliteDatabase, SqliteDialect
from lading.testing.world import make_seal


def test_the_statement_of_a_table() -> None:
    assert "uuid TEXT PRIMARY KEY" in schema.create_table(SqliteDialect(), LINKS)
    assert "id INTEGER PRIMARY KEY, uuid TEXT UNIQUE" in schema.create_table(SqliteDialect(), LOGS)


def test_rows_with_nulls_stay_out_of_sparse_indexes() -> None:
    statements = list(schema.create_indexes(SqliteDialect(), CONTAINERS))
    assert (
        "CREATE INDEX IF NOT EXISTS sparse_containers_auth_uuid ON containers (auth_uuid ASC)"
        " WHERE auth_uuid IS NOT NULL"
    ) in statements
    assert CONTAINERS.looked_up >= {"auth_uuid", "reuse_key", "created_at"}


async def test_missing_columns_are_added(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    async with database.writing() as tx:
        await tx.execute("CREATE TABLE links (uuid TEXT PRIMARY KEY, name TEXT)")
        await tx.execute("INSERT INTO links VALUES ('old', 'n')")
    await schema.prepare(database, now="now")
    await schema.prepare(database, now="now")
    async with database.reading() as tx:
        old = await records.get(tx, LINKS, "old")
    await database.close()
    assert old is not None
    assert (old["name"], old["properties"], old["link_class"]) == ("n", {}, "")

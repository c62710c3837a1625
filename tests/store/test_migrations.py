"""Databases of earlier versions, with data in them, become present ones: on SQLite and on
PostgreSQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.core.quantities import format_time
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_filters
from lading.core.records.record_types import COLLECTIONS, LOGS, RECORDS
from lading.core.records.schema import Record
from lading.store import log_rows, records, schema
from lading.store.database import Database
from lading.store.databases.postgres import PostgresDatabase
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import START, World, make_seal, world
from tests.postgres import PostgresServer

SCHEMAS = Path(__file__).with_name("schemas")


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


async def counted(database: Database) -> dict[str, int]:
    """How many records there are, by plural, as SQL alone says it."""
    found = {}
    async with database.reading() as tx:
        for kind in RECORDS:
            if await tx.fetch(database.dialect.columns, (kind.plural,)):
                found[kind.plural] = int(
                    (await tx.fetch(f"SELECT count(*) FROM {kind.plural}"))[0][0] or 0
                )
    return found


async def test_an_older_database_with_data_becomes_a_present_one(older: Database) -> None:
    before = await counted(older)
    assert before["container_requests"] >= 2
    for _ in range(2):
        await schema.prepare(older, now=format_time(START))
    async with older.reading() as tx:
        steps = await tx.fetch("SELECT version, name FROM schema_versions ORDER BY version")
        found = {
            kind.plural: await records.find(tx, older.dialect, kind, ())
            for kind in RECORDS
            if kind.stored
        }
        where = check_filters(
            [["properties.list", "contains", 1], ["name", "=", "O'Neill"]], COLLECTIONS
        )
        assert len(await records.find(tx, older.dialect, COLLECTIONS, where)) == 1
    assert steps[-1] == (schema.VERSION, schema.MIGRATIONS[-1].name)
    assert all(name for _, name in steps)
    assert {plural: len(found[plural]) for plural in before} == before
    assert {row["state"] for row in found["containers"]} >= {"Complete", "Queued"}
    assert all(row["broad_key"] and row["reuse_key"] for row in found["containers"])
    assert {row["runtime_token"] for row in found["container_requests"]} <= {None} | _tokens(found)
    assert [row["properties"] for row in found["logs"] if row["event_type"] == "note"] == [
        {"text": "Grüße ✓"}
    ]


async def test_no_index_is_left_that_another_has_taken_the_place_of(older: Database) -> None:
    await schema.prepare(older, now=format_time(START))
    listed = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    if older.shared:
        listed = (
            "SELECT indexname::text FROM pg_indexes "
            "WHERE schemaname = 'public' AND indexdef NOT LIKE '%UNIQUE%'"
        )
    wanted = {
        one.split()[5]
        for kind in RECORDS
        if kind.stored
        for one in schema.create_indexes(older.dialect, kind)
        if one.startswith("CREATE INDEX")
    }
    async with older.reading() as tx:
        found = {str(row[0]) for row in await tx.fetch(listed)}
    apart = ("unique_", "memberships_", "grants_", "allocations_", "request_dependencies_",
             "container_inputs_", "container_attempts_", "task_transfers_",
             "task_keys_", "fair_", "quota_",
             "cancellations_")  # fmt: skip
    assert {name for name in found if not name.startswith(apart)} == wanted


async def test_nested_values_are_checked_as_in_a_new_database(
    older: Database, postgres: PostgresServer
) -> None:
    new = await PostgresDatabase.open(await postgres.fresh(), seal=make_seal())
    checks = []
    for one in (older, new) if older.shared else ():
        await schema.prepare(one, now=format_time(START))
        async with one.reading() as tx:
            checks.append(await tx.fetch(_CHECKS))
    await new.close()
    assert not older.shared or checks[0] == checks[1] != []


_CHECKS = (
    "SELECT conname::text, replace(pg_get_constraintdef(oid), ' NOT VALID', '') FROM pg_constraint"
    " WHERE contypid = to_regtype('lading_json')"
)


def _tokens(found: dict[str, list[Record]]) -> set[str]:
    """What a runtime token may be: sealed or not before, it is readable now."""
    uuids = {row["uuid"] for row in found["api_client_authorizations"]}
    given = {row["runtime_token"] for row in found["container_requests"] if row["runtime_token"]}
    assert all(one.startswith("v2/") and one.split("/")[1] in uuids for one in given)
    return given


async def test_servers_work_with_it(older: Database, tmp_path: Path) -> None:
    await schema.prepare(older, now=format_time(START))
    async with world(tmp_path / "new", database=older, seed=11) as it:
        ada = next(
            one for one in (await it.ok("GET", "users"))["items"] if one["username"] == "ada"
        )
        again = await it.submit("echo", "1", token=await _token(it, ada["uuid"]))
        assert again["state"] == "Final", "what was computed before is still reused"
        fresh = await it.submit("echo", "5")
        await it.run(fresh["container_uuid"])
        waiting = await it.ok("GET", "containers", params={"filters": [["state", "=", "Queued"]]})
        for one in waiting["items"]:
            assert (await it.run(one["uuid"]))["state"] == "Complete"
        ended = await it.ok(
            "GET", "container_requests", params={"filters": [["state", "=", "Final"]]}
        )
        assert len(ended["items"]) >= 2 + len(waiting["items"])


async def _token(it: World, owner: str) -> str:
    made = await it.ok("POST", "api_client_authorizations", {"owner_uuid": owner})
    return f"v2/{made['uuid']}/{made['api_token']}"


async def test_the_short_form_of_log_rows_waits_for_older_servers(older: Database) -> None:
    upgraded = START + timedelta(hours=1)
    async with older.reading() as tx:
        (version,) = (await tx.fetch("SELECT max(version) FROM schema_versions"))[0]
    has_form = int(version or 0) >= log_rows.REPEATS_LEFT_OUT
    for later in range(2):
        await schema.prepare(older, now=format_time(upgraded + timedelta(days=later)))
    # Only PostgreSQL has several servers, and a database that has the form already had its day.
    tomorrow = format_time(upgraded + timedelta(days=1))
    assert older.short_logs_since == (tomorrow if older.shared and not has_form else "")


async def test_a_new_database_has_the_short_form_at_once(database: Database) -> None:
    await schema.prepare(database, now=format_time(START))
    assert database.short_logs_since == ""


async def test_work_goes_on_in_it(older: Database) -> None:
    await schema.prepare(older, now=format_time(START))
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
            await schema.prepare(database, now=format_time(START))
        assert "\n" not in str(caught.value)
    finally:
        async with database.writing() as tx:
            await tx.execute("DELETE FROM schema_versions WHERE version = 99")


def test_steps_are_ordered_and_named() -> None:
    numbers = [one.number for one in schema.MIGRATIONS]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len({one.name for one in schema.MIGRATIONS}) == len(numbers)


async def test_tokens_that_version_1_stored_in_clear_are_sealed(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db")
    connection.executescript((SCHEMAS / "sqlite_1.sql").read_text())
    connection.execute("UPDATE container_requests SET runtime_token = 'v2/a/clear'")
    connection.commit()
    connection.close()
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    await schema.prepare(database, now=format_time(START))
    async with database.reading() as tx:
        stored = await tx.fetch("SELECT runtime_token FROM container_requests")
        requests = await records.find(tx, database.dialect, REQUESTS, ())
    await database.close()
    assert stored
    assert all("clear" not in str(token) for (token,) in stored)
    assert {request["runtime_token"] for request in requests} == {"v2/a/clear"}

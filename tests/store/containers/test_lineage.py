"""Which containers made a content, and which used it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.permissions import Requested
from lading.store import permissions, records, schema
from lading.store.containers import lineage, reusable
from lading.store.database import Database, Transaction
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal

ONE, TWO, THREE = (f"{digit * 32}+1" for digit in "abc")


async def test_makers_and_users(database: Database) -> None:
    mounts = {"/in": {"kind": "collection", "portable_data_hash": ONE}}
    first = {
        "uuid": "first",
        "created_at": "1",
        "mounts": mounts,
        "output": TWO,
        "container_image": THREE,
    }
    second = {"uuid": "second", "created_at": "2", "mounts": {}, "log": TWO, "container_image": ONE}
    async with database.writing() as tx:
        for row in (first, second):
            await records.insert(tx, CONTAINERS, {**CONTAINERS.defaults, "owner_uuid": "u", **row})
            await lineage.note_inputs(tx, row)
        makers = partial(lineage.makers, tx, database.dialect, readable=())
        users = partial(lineage.users, tx, database.dialect, readable=())
        assert await makers([TWO], limit=9) == ["second", "first"]
        assert await makers([ONE, TWO], limit=1) == ["second"]
        assert await users([ONE], limit=9) == ["second", "first"]
        assert await users([THREE, TWO], limit=9) == ["first"]


async def test_a_container_with_several_inputs(database: Database) -> None:
    mounts = {
        f"/{one[0]}": {"kind": "collection", "portable_data_hash": one} for one in (ONE, TWO, THREE)
    }
    row = {
        **CONTAINERS.defaults,
        "owner_uuid": "u",
        "uuid": "fourth",
        "created_at": "4",
        "mounts": mounts,
    }
    async with database.writing() as tx:
        await records.add(tx, CONTAINERS, {**row, "container_image": "i"})
        await lineage.note_inputs(tx, row)
    async with database.reading() as tx:
        for one in (ONE, TWO, THREE):
            assert await lineage.users(tx, database.dialect, [one], (), limit=9) == ["fourth"]


async def test_inputs_of_containers_that_were_there_before(database: Database) -> None:
    mounts = {"/in": {"kind": "collection", "portable_data_hash": TWO}, "/also": {"kind": "tmp"}}
    row = {
        **CONTAINERS.defaults,
        "owner_uuid": "u",
        "uuid": "third",
        "created_at": "3",
        "mounts": mounts,
    }
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {**row, "container_image": "i"})
        assert "third" not in await lineage.users(tx, database.dialect, [TWO], (), limit=9)
        for _ in range(2):
            await lineage.fill_inputs(tx)
        assert "third" in await lineage.users(tx, database.dialect, [TWO], (), limit=9)


async def test_nothing_is_followed_through_containers_that_the_reader_cannot_read(
    database: Database,
) -> None:
    dialect, readable = database.dialect, [Requested("me", "9")]

    async def reached(tx: Transaction, start: str, *, is_upward: bool) -> list[str]:
        found = await lineage.lineage(tx, dialect, [start], readable, is_upward=is_upward, limit=99)
        return sorted(found)

    async with database.writing() as tx:
        for user in ("me", "you"):
            await permissions.add_user(tx, user)
        # Three steps in a row, of which the second one is another user's.
        for number, owner in ((1, "me"), (2, "you"), (3, "me")):
            source, result = f"c{number}", f"c{number + 1}"
            row = {
                "uuid": str(number),
                "state": "Complete",
                "mounts": {"/in": {"kind": "collection", "portable_data_hash": source}},
                "output": result,
                "container_image": "image",
                "broad_key": "b",
                "withdrawn_at": "5",
            }
            await records.insert(tx, CONTAINERS, row)
            await lineage.note_inputs(tx, row)
            request = {"uuid": f"r{number}", "container_uuid": str(number), "owner_uuid": owner}
            await records.insert(tx, REQUESTS, request)
        assert await reached(tx, "c4", is_upward=True) == ["3"]
        assert await reached(tx, "c1", is_upward=False) == ["1"]
        assert await reached(tx, "image", is_upward=False) == ["1", "3"]
        assert await lineage.makers(tx, dialect, ["c3", "c4"], readable, limit=9) == ["3"]
        assert await lineage.users(tx, dialect, ["c1", "c2"], readable, limit=9) == ["1"]
        every = await lineage.lineage(tx, dialect, ["c4"], (), is_upward=True, limit=99)
        assert sorted(every) == ["1", "2", "3"]
        found = await lineage.withdrawn_above(tx, dialect, "3", readable)
        assert found == []
        found = await lineage.withdrawn_above(tx, dialect, "3", ())
        assert [one["uuid"] for one in found] == ["1", "2"]
        repeats = await reusable.repeats(tx, dialect, "b", readable)
        assert sorted(one["uuid"] for one in repeats) == ["1", "3"]


async def test_users_are_found_by_indexes(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    await schema.prepare(database, now="now")
    seen: list[str] = []
    async with database.reading() as tx:
        rows = await tx.fetch(
            "EXPLAIN QUERY PLAN SELECT c.uuid FROM container_inputs i "
            "JOIN containers c ON c.uuid = i.container_uuid "
            "WHERE i.portable_data_hash IN (?)",
            (ONE,),
        )
        seen = [str(row[3]) for row in rows]
    await database.close()
    assert len(seen) == 2
    assert all(one.startswith("SEARCH") for one in seen), seen

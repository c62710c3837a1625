"""Which containers made a content, and which used it."""

from __future__ import annotations

from pathlib import Path

from lading.core.records.record_types import CONTAINERS
from lading.store import contents, records, schema
from lading.store.database import Database
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
            await contents.note_inputs(tx, row)
        assert await contents.makers(tx, [TWO], limit=9) == ["second", "first"]
        assert await contents.makers(tx, [ONE, TWO], limit=1) == ["second"]
        assert await contents.users(tx, [ONE], limit=9) == ["second", "first"]
        assert await contents.users(tx, [THREE, TWO], limit=9) == ["first"]


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
        await contents.note_inputs(tx, row)
    async with database.reading() as tx:
        for one in (ONE, TWO, THREE):
            assert await contents.users(tx, [one], limit=9) == ["fourth"]


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
        assert "third" not in await contents.users(tx, [TWO], limit=9)
        for _ in range(2):
            await contents.fill_inputs(tx)
        assert "third" in await contents.users(tx, [TWO], limit=9)


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

"""What every database must do: isolation, all or nothing, durability, the filter language. One
suite for all.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.errors import Conflict, Invalid, Unavailable
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_filters, check_order, check_query
from lading.core.records.record_types import COLLECTIONS, LINKS, LOGS
from lading.core.records.schema import JSON, Record
from lading.store import records
from lading.store.database import Database, TransactionInterrupted
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal
from tests.databases import a_database

BIG = 1000 * (1 << 50) - 1
ROWS: list[Record] = [
    {
        "name": "alpha",
        "properties": {"k": "v", "n": 5, "list": ["a", 1], "t": True, "z": None},
        "version": 1,
    },
    {"name": "Beta", "properties": {"k": "w", "n": 7.5, "o": {"x": 1}}, "version": 2},
    {"name": None, "properties": {}, "version": 3, "storage_classes_desired": ["default", "fast"]},
]


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with a_database(request, tmp_path) as made:
        yield made


async def fill(database: Database) -> None:
    async with database.writing() as tx:
        for number, row in enumerate(ROWS):
            uuid = f"zzzzz-4zz18-00000000000000{number}"
            common = {
                "uuid": uuid,
                "current_version_uuid": uuid,
                "owner_uuid": "zzzzz-tpzed-000000000000000",
            }
            times = {
                "created_at": f"2026-01-0{number + 1}T00:00:00.000000000Z",
                "modified_at": f"m{number}",
            }
            await records.insert(
                tx, COLLECTIONS, {**row, **common, **times, "portable_data_hash": f"{number}+0"}
            )


@pytest.mark.parametrize(
    ("triple", "found"),
    [
        (["name", "=", "alpha"], "0"),
        (["name", "=", None], "2"),
        (["name", "!=", "alpha"], "12"),
        (["name", "!=", None], "01"),
        (["name", ">", "a"], "0"),
        (["name", "like", "a%"], "0"),
        (["name", "like", "A%"], ""),
        (["name", "ilike", "A%"], "0"),
        (["name", "like", "al\\%"], ""),
        (["any", "ilike", "%beta%"], "1"),
        (["any", "=", "alpha"], "0"),
        (["name", "in", ["alpha", "Beta"]], "01"),
        (["name", "in", ["alpha", None]], "02"),
        (["name", "not in", ["alpha"]], "12"),
        (["name", "not in", ["alpha", None]], "1"),
        (["version", ">=", "2"], "12"),
        (["version", "in", [1, 3]], "02"),
        (["is_trashed", "=", False], "012"),
        (["created_at", "<", "2026-01-02"], "0"),
        (["uuid", "is_a", "arvados#collection"], "012"),
        (["uuid", "is_a", "arvados#group"], ""),
        (["owner_uuid", "is_a", ["arvados#user"]], "012"),
        (["properties", "=", "{}"], "2"),
        (["properties", "exists", "k"], "01"),
        (["properties", "contains", ["k", "n"]], "01"),
        (["storage_classes_desired", "contains", "fast"], "2"),
        (["properties.k", "=", "v"], "0"),
        (["properties.k", "!=", "v"], "12"),
        (["properties.n", "=", 5], "0"),
        (["properties.n", ">", 6], "1"),
        (["properties.k", "<", "w"], "0"),
        (["properties.t", "=", True], "0"),
        (["properties.t", "=", False], ""),
        (["properties.z", "=", None], "0"),
        (["properties.o", "=", {"x": 1}], "1"),
        (["properties.list", "=", ["a", 1]], "0"),
        (["properties.k", "in", ["v", "w"]], "01"),
        (["properties.k", "in", []], ""),
        (["properties.n", "in", [5, "5", 7.5]], "01"),
        (["properties.t", "in", [True]], "0"),
        (["properties.t", "in", [False]], ""),
        (["properties.z", "in", [None]], "0"),
        (["properties.o", "in", [{"x": 1}, ["a"]]], "1"),
        (["properties.n", "in", list(range(5000))], "0"),
        (["properties.n", "not in", [*range(5000), None, "x"]], "12"),
        (["properties.k", "not in", ["v"]], "12"),
        (["properties.k", "like", "v%"], "0"),
        (["properties.k", "ilike", "W"], "1"),
        (["properties.k", "exists", True], "01"),
        (["properties.k", "exists", False], "2"),
        (["properties.list", "contains", "a"], "0"),
        (["properties.list", "contains", 1], "0"),
        (["properties.k", "contains", "v"], "0"),
        ("(portable_data_hash < name)", "01"),
        ("(name != portable_data_hash)", "012"),
        ("(current_version_uuid = uuid)", "012"),
        ([["name", "portable_data_hash"], "=", "1+0"], "1"),
    ],
)  # fmt: skip
async def test_filters(database: Database, triple: JSON, found: str) -> None:
    await fill(database)
    query = check_query({"filters": [triple], "order": "uuid"}, COLLECTIONS, max_limit=10)
    async with database.reading() as tx:
        rows = await records.search(tx, database.dialect, COLLECTIONS, query)
        assert await records.count(tx, database.dialect, COLLECTIONS, query) == len(found)
    assert "".join(row["uuid"][-1] for row in rows) == found


async def test_requests_are_found_by_their_container(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "c", "state": "Running", "priority": BIG})
        await records.insert(tx, REQUESTS, {"uuid": "r", "container_uuid": "c"})
        where = check_filters([["container.state", "=", "Running"]], REQUESTS)
        assert [
            row["uuid"] for row in await records.find(tx, database.dialect, REQUESTS, where)
        ] == ["r"]
        found = await records.get(tx, CONTAINERS, "c")
    assert found is not None
    assert found["priority"] == BIG


async def test_order_page_and_distinct(database: Database) -> None:
    await fill(database)
    page = check_query(
        {"order": ["version desc"], "limit": 1, "offset": 1, "select": ["name"]},
        COLLECTIONS,
        max_limit=9,
    )
    names = check_query(
        {"select": ["owner_uuid"], "distinct": True, "order": "version"}, COLLECTIONS, max_limit=9
    )
    async with database.reading() as tx:
        assert await records.search(tx, database.dialect, COLLECTIONS, page) == [{"name": "Beta"}]
        assert len(await records.search(tx, database.dialect, COLLECTIONS, names)) == 1
    assert check_order("name", COLLECTIONS)[0].column == "name"


async def test_nulls_come_first(database: Database) -> None:
    await fill(database)
    for order, expected in (("name", "210"), ("name desc", "012")):
        query = check_query({"order": [order]}, COLLECTIONS, max_limit=9)
        async with database.reading() as tx:
            rows = await records.search(tx, database.dialect, COLLECTIONS, query)
        assert "".join(row["uuid"][-1] for row in rows) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "half \ud800"},
        {"file_size_total": 1 << 70},
    ],
)
async def test_what_cannot_be_stored_is_the_callers_fault(
    database: Database, changes: Record
) -> None:
    await fill(database)
    uuid = "zzzzz-4zz18-000000000000000"
    with pytest.raises(Invalid):
        async with database.writing() as tx:
            await records.update(tx, COLLECTIONS, uuid, {"name": "changed"})
            await records.update(tx, COLLECTIONS, uuid, changes)
    async with database.reading() as tx:
        assert (await records.among(tx, COLLECTIONS, "uuid", [uuid]))[0]["name"] == "alpha"


async def test_texts_and_numbers_come_back_exactly(database: Database) -> None:
    properties = {
        "z": 1,
        "a": 0.1,
        "big": BIG,
        "text": "Gr\u00fc\u00dfe \U0001f600 ' ? \\",
        "list": [],
        "none": None,
    }
    async with database.writing() as tx:
        await records.insert(
            tx, COLLECTIONS, {"uuid": "u", "name": "a ? 'b'", "properties": properties}
        )
    async with database.reading() as tx:
        found = await records.get(tx, COLLECTIONS, "u")
        where = check_filters(
            [["properties.a", "=", 0.1], ["properties.big", ">=", BIG]], COLLECTIONS
        )
        assert len(await records.find(tx, database.dialect, COLLECTIONS, where)) == 1
    assert found is not None
    assert (found["name"], list(found["properties"].items())) == (
        "a ? 'b'",
        list(properties.items()),
    )


async def test_one_that_was_cancelled_leaves_nothing(database: Database) -> None:
    begun = asyncio.Event()

    async def never_done() -> None:
        async with database.writing() as tx:
            await records.insert(tx, LINKS, {"uuid": "cancelled"})
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(never_done())
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with database.writing() as tx:
        assert await records.get(tx, LINKS, "cancelled") is None


async def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    heard: list[str] = []
    with pytest.raises(RuntimeError, match="no"):
        async with database.writing() as tx:
            await records.insert(tx, LINKS, {"uuid": "l"})
            tx.after_commit(lambda: heard.append("committed"))
            raise RuntimeError("no")
    async with database.reading() as tx:
        assert await records.get(tx, LINKS, "l") is None
    assert heard == []


async def test_readers_see_what_is_committed(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, LINKS, {"uuid": "l", "name": "new"})
        async with database.reading() as other:
            assert await records.get(other, LINKS, "l") is None
        tx.after_commit(lambda: heard.append("committed"))
        heard: list[str] = []
    assert heard == ["committed"]
    async with database.reading() as tx:
        assert (await records.matching(tx, LINKS, name="new"))[0]["uuid"] == "l"


async def test_compare_and_set(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "c", "state": "Queued"})
        unheld = {"state": "Queued", "locked_by_uuid": None}
        assert await records.update(
            tx, CONTAINERS, "c", {"state": "Locked", "locked_by_uuid": "t"}, expected=unheld
        )
        assert not await records.update(tx, CONTAINERS, "c", {"state": "Locked"}, expected=unheld)
        assert await records.delete(tx, CONTAINERS, "c")
        assert not await records.delete(tx, CONTAINERS, "c")


async def test_uniqueness(database: Database) -> None:
    row = {"owner_uuid": "o", "name": "n", "portable_data_hash": "x"}
    async with database.writing() as tx:
        await records.insert(tx, COLLECTIONS, {**row, "uuid": "a", "current_version_uuid": "a"})
        await records.insert(
            tx, COLLECTIONS, {**row, "uuid": "b", "current_version_uuid": "b", "is_trashed": True}
        )
    with pytest.raises(Invalid, match="duplicate key"):
        async with database.writing() as tx:
            await records.insert(tx, COLLECTIONS, {**row, "uuid": "c", "current_version_uuid": "c"})


async def test_numbers_grow(database: Database) -> None:
    async with database.writing() as tx:
        first = await records.insert(tx, LOGS, {"uuid": "l1"})
        second = await records.insert(tx, LOGS, {"uuid": "l2"})
    assert second > first


async def test_calls_write_before_work_in_the_background(database: Database) -> None:
    order: list[str] = []

    async def write(name: str, *, aside: bool = False) -> None:
        async with database.writing(aside=aside) as tx:
            order.append(name)
            await tx.execute("UPDATE links SET name = 'a' WHERE name = 'b'")

    async with asyncio.TaskGroup() as tasks, database.writing(aside=True):
        tasks.create_task(write("work", aside=True))
        await asyncio.sleep(0)
        tasks.create_task(write("first"))
        tasks.create_task(write("second"))
        await asyncio.sleep(0)
    assert order == ["first", "second", "work"]


async def test_writers_take_turns(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "c", "lock_count": 0})

    async def add() -> None:
        async with database.writing() as tx:
            row = await records.get(tx, CONTAINERS, "c")
            assert row is not None
            await asyncio.sleep(0)
            await records.update(tx, CONTAINERS, "c", {"lock_count": row["lock_count"] + 1})

    await asyncio.gather(*(add() for _ in range(20)))
    async with database.reading() as tx:
        assert [
            row["lock_count"] for row in await records.among(tx, CONTAINERS, "uuid", ["c"])
        ] == [20]


CHILD = """
import asyncio, sys
from pathlib import Path
from lading.core.records.record_types import LINKS
from lading.store import records, schema
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal

async def main():
    database = SqliteDatabase(Path(sys.argv[1]), seal=make_seal())
    await schema.prepare(database, now="now")
    for number in range(10_000):
        async with database.writing() as tx:
            await records.insert(tx, LINKS, {"uuid": str(number)})
        print(number, flush=True)

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, tmp_path / "db"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acknowledged = [process.stdout.readline() for _ in range(50)]
    os.kill(process.pid, signal.SIGKILL)
    acknowledged += process.stdout.readlines()
    process.stdout.close()
    process.wait()
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    async with database.reading() as tx:
        rows = await records.matching(tx, LINKS, owner_uuid="") + await records.find(
            tx, database.dialect, LINKS, ()
        )
    await database.close()
    assert {int(line) for line in acknowledged if line.endswith("\n")} <= {
        int(row["uuid"]) for row in rows
    }


async def test_one_that_fails_is_undone_alone_or_the_others_are_told_to_try_again(
    database: Database,
) -> None:
    async def add(uuid: str, *, fail: bool) -> str:
        while True:
            try:
                async with database.writing() as tx:
                    await records.insert(tx, LINKS, {"uuid": uuid})
                    if fail:
                        raise ZeroDivisionError
            except TransactionInterrupted:
                continue
            except ZeroDivisionError:
                return "failed"
            return "added"

    ends = await asyncio.gather(*(add(str(number), fail=number % 5 == 3) for number in range(20)))
    assert [number for number, end in enumerate(ends) if end == "failed"] == [3, 8, 13, 18]
    async with database.reading() as tx:
        found = {row["uuid"] for row in await records.find(tx, database.dialect, LINKS, ())}
    assert found == {str(number) for number in range(20) if number % 5 != 3}


async def test_a_refusal_disturbs_nobody(database: Database) -> None:
    told: list[str] = []

    async def write(uuid: str) -> None:
        async with database.writing() as tx:
            if uuid == "refused":
                raise Invalid(uuid)
            tx.after_commit(lambda: told.append(uuid))
            await records.add(tx, LINKS, {"uuid": uuid})

    ends = await asyncio.gather(*map(write, ("a", "refused", "b")), return_exceptions=True)
    assert [type(one) for one in ends] == [type(None), Invalid, type(None)]
    assert told == ["a", "b"]


async def test_what_is_deferred_is_done_before_what_follows(database: Database) -> None:
    async with database.writing() as tx:
        await records.add(tx, CONTAINERS, {"uuid": "c", "state": "Queued"})
        await records.change(tx, CONTAINERS, "c", {"state": "Locked"}, expected={"state": "Queued"})
        await records.change(tx, CONTAINERS, "c", {"lock_count": 1}, expected={"state": "Locked"})
        found = await records.get(tx, CONTAINERS, "c")
        assert found is not None
        assert (found["state"], found["lock_count"]) == ("Locked", 1)
        await records.add(tx, LOGS, {"uuid": "first"})
        assert await records.delete(tx, LOGS, "first")
        for number in range(3):
            await records.add(tx, LOGS, {"uuid": str(number)})
    query = check_query({"order": "id"}, LOGS, max_limit=9)
    async with database.reading() as tx:
        rows = await records.search(tx, database.dialect, LOGS, query)
    assert [row["uuid"] for row in rows] == ["0", "1", "2"]


async def test_a_query_sees_what_is_deferred_of_each_table_that_it_names(
    database: Database,
) -> None:
    async with database.writing() as tx:
        await records.add(tx, CONTAINERS, {"uuid": "c", "state": "Queued"})
        await records.add(tx, REQUESTS, {"uuid": "r", "container_uuid": "c"})
        assert await tx.fetch("SELECT count(*) FROM links") == [(0,)]
        of_container = "EXISTS (SELECT 1 FROM containers c WHERE c.uuid = container_uuid)"
        found = await tx.fetch(f"SELECT uuid FROM container_requests WHERE {of_container}")
        assert found == [("r",)]
        await records.change(tx, CONTAINERS, "c", {"priority": 1}, expected={})
        assert await tx.fetch("SELECT count(*) FROM links") == [(0,)]
        assert await tx.fetch("SELECT priority FROM containers") == [(1,)]


async def test_a_new_record_may_have_the_name_that_another_has_just_given_up(
    database: Database,
) -> None:
    common = {"owner_uuid": "o", "is_trashed": False}
    async with database.writing() as tx:
        for number in range(2):
            uuid = str(number)
            record = {**common, "uuid": uuid, "current_version_uuid": uuid, "name": "same"}
            await records.add(tx, COLLECTIONS, record)
            await records.change(tx, COLLECTIONS, uuid, {"name": f"other {number}"}, expected={})
    async with database.reading() as tx:
        names = await tx.fetch("SELECT name FROM collections ORDER BY name")
    assert names == [("other 0",), ("other 1",)]


async def test_a_deferred_change_that_comes_too_late_changes_nothing(database: Database) -> None:
    with pytest.raises(Conflict, match="c: it was changed at the same time"):
        async with database.writing() as tx:
            await records.add(tx, CONTAINERS, {"uuid": "c", "state": "Queued"})
            await records.change(tx, CONTAINERS, "c", {"priority": 1}, expected={"state": "Locked"})
    with pytest.raises(Invalid, match="duplicate key|UNIQUE|unique"):
        async with database.writing() as tx:
            await records.add(tx, CONTAINERS, {"uuid": "c"})
            await records.add(tx, LINKS, {"uuid": "l"})
            await records.add(tx, CONTAINERS, {"uuid": "c"})
    async with database.reading() as tx:
        assert await records.get(tx, CONTAINERS, "c") is await records.get(tx, LINKS, "l") is None


async def test_rows_that_are_stored_together_are_numbered_in_their_order(
    database: Database,
) -> None:
    names = ("uuid", "object_uuid", "properties")
    rows = [(f"l{number:03}", f"o{number}", {"n": number, "é": "\t\\N"}) for number in range(120)]
    async with database.writing() as tx:
        await records.insert(tx, LOGS, {"uuid": "before"})
        first = await records.add_all(tx, LOGS, names, rows)
        last = await records.insert(tx, LOGS, {"uuid": "x"})
        found = await tx.fetch("SELECT uuid, id FROM logs WHERE uuid LIKE 'l%' ORDER BY id")
        assert [row[0] for row in found] == [row[0] for row in rows]
        assert first in (0, found[0][1])
        assert last == int(found[-1][1] or 0) + 1
    (stored,) = await of_log(database, "l119")
    assert stored["properties"] == {"n": 119, "é": "\t\\N"}
    assert (stored["object_uuid"], stored["owner_uuid"]) == ("o119", None)


async def of_log(database: Database, uuid: str) -> list[Record]:
    async with database.reading() as tx:
        return await records.matching(tx, LOGS, uuid=uuid)


async def test_rows_that_are_stored_together_are_stored_whole_or_not_at_all(
    database: Database,
) -> None:
    for rows in ([("a",), ("b",), ("a",)], [("c",)]):
        with pytest.raises(Invalid if len(rows) > 1 else Unavailable):
            async with database.writing() as tx:
                await records.add_all(tx, LOGS, ("uuid",), rows)
                raise Unavailable
    assert await of_log(database, "a") == await of_log(database, "c") == []


@pytest.mark.parametrize("count", [0, 1, 300])
async def test_a_change_of_many_records(database: Database, count: int) -> None:
    async with database.writing() as tx:
        uuids = [f"zzzzz-dz642-{number:015}" for number in range(count)]
        for uuid in (*uuids, "other"):
            await records.insert(tx, CONTAINERS, {"uuid": uuid, "priority": 1})
        changes: Record = {"priority": 0, "runtime_status": {"error": "e"}}
        await records.change_all(tx, database.dialect, CONTAINERS, uuids, changes)
        with pytest.raises(Conflict):
            await records.change_all(
                tx, database.dialect, CONTAINERS, [*uuids, "none"], {"priority": 0}
            )
        assert len(await records.matching(tx, CONTAINERS, priority=0)) == count
        assert [one["uuid"] for one in await records.matching(tx, CONTAINERS, priority=1)] == [
            "other"
        ]

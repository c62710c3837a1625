"""Records in and out of tables."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import Column, Compare, Query, SortKey
from lading.core.records.permissions import Untrashed
from lading.core.records.record_types import LINKS
from lading.core.records.schema import Type
from lading.store import records
from lading.store.database import Database


async def test_a_record_comes_back_as_it_was(database: Database) -> None:
    given = {
        "uuid": "c",
        "command": ["a", "é"],
        "service": True,
        "cost": 2,
        "mounts": {"/": {}},
        "progress": None,
    }
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, given)
        found = await records.get(tx, CONTAINERS, "c")
    assert found is not None
    assert {name: found[name] for name in given} == {**given, "cost": 2.0}
    assert isinstance(found["cost"], float)
    assert found["runtime_status"] == {}
    assert found["runtime_auth_scopes"] is None


async def test_what_is_derived_alone_still_has_rows(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, LINKS, {"uuid": "l"})
        query = Query(select=("kind",))
        assert await records.search(tx, database.dialect, LINKS, query) == [{"uuid": "l"}]
        assert await records.among(tx, LINKS, "uuid", []) == []
        assert (
            await records.find(tx, database.dialect, LINKS, (records.equals(LINKS, "uuid", "x"),))
            == []
        )


async def test_nested_values_of_a_page_may_stay_texts(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, LINKS, {"uuid": "a", "properties": {"k": [1, None]}})
        query = Query(select=("uuid", "properties"), limit=9)
        plain = await records.search(tx, database.dialect, LINKS, query)
        rows = await records.search(tx, database.dialect, LINKS, query, raw=True)
    assert plain == [{"uuid": "a", "properties": {"k": [1, None]}}]
    assert msgspec.json.encode(rows) == msgspec.json.encode(plain)


async def test_a_page_may_be_made_of_texts(database: Database) -> None:
    plain = {
        "uuid": "a",
        "modified_at": "1",
        "cost": 0.1 + 0.2,
        "priority": 1 << 60,
        "service": True,
    }
    odd = {
        "uuid": "b",
        "modified_at": "2",
        "cwd": '"\\%s\n\x01é\u2028',
        "command": ["%d", "é"],
        "progress": 1e-9,
    }
    async with database.writing() as tx:
        for row in (
            plain,
            odd,
            {"uuid": "c", "modified_at": "3", "state": "Locked", "mounts": {"/": {"k": None}}},
        ):
            await records.insert(tx, CONTAINERS, row)
        for query in (
            Query(),
            Query(select=("cost", "cwd", "service")),
            Query(select=("progress",)),
            Query(limit=1),
        ):
            texts = await records.search_texts(tx, database.dialect, CONTAINERS, query)
            if texts is not None:
                found = [msgspec.json.decode(f"{{{text}}}") for text, _, _ in texts]
                assert found == await records.search(tx, database.dialect, CONTAINERS, query)
                assert [(uuid, at) for _, uuid, at in texts] == [
                    ("a", "1"),
                    ("b", "2"),
                    ("c", "3"),
                ][: query.limit]
            assert (texts is None) == (database.shared or query.select == ("progress",))


_FROM_B = Compare(Column("uuid", Type.STRING), ">=", "b")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(limit=2), "ab"),
        (Query(limit=2, offset=1), "bc"),
        (Query(limit=2, where=(_FROM_B,)), "bc"),
        (Query(limit=9, where=(_FROM_B, Untrashed("owner_uuid", "now"))), "bcd"),
        (Query(limit=1, where=(Compare(Column("name", Type.STRING), "=", "n"),)), "c"),
        (Query(limit=0), ""),
    ],
)
async def test_a_page_has_its_limit_and_its_place(
    database: Database, query: Query, found: str
) -> None:
    async with database.writing() as tx:
        for uuid in "dcba":
            await records.insert(tx, LINKS, {"uuid": uuid, "name": "n" if uuid > "b" else "m"})
        query = replace(query, order=(SortKey("uuid"),), select=("uuid",))
        rows = await records.search(tx, database.dialect, LINKS, query)
    assert "".join(row["uuid"] for row in rows) == found

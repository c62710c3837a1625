"""Levels as they are asked for, and the forms of a list's condition."""

from __future__ import annotations

import pytest

from lading.core.records.expressions import Query, SortKey
from lading.core.records.permissions import Accessible
from lading.core.records.record_types import COLLECTIONS
from lading.store import permission_queries, records
from lading.store.database import Database
from tests.store.test_permissions import ALICE, BOB, FILE, ROLES, P, Q, a_graph


async def test_levels(database: Database) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.link(BOB, P, 2)
        await it.link(BOB, ALICE, 1)
        await it.link(BOB, FILE, 1)
        assert await permission_queries.level_on(it.tx, BOB, "c", P) == 2
        assert (
            await permission_queries.level_on(it.tx, BOB, FILE, ALICE)
            == await permission_queries.level_on(it.tx, BOB, ALICE, "root")
            == 1
        )
        assert (
            await permission_queries.level_on(it.tx, BOB, "c", ALICE)
            == await permission_queries.level_in(it.tx, BOB, ALICE)
            == 0
        )
        assert await permission_queries.level_in(it.tx, BOB, P) == 2
        assert await permission_queries.levels_on(it.tx, BOB, [P, ALICE, Q]) == {P: 2, ALICE: 1}
        assert await permission_queries.levels_on(it.tx, BOB, []) == {}


async def test_members_and_owners(database: Database) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.project(Q, P)
        await it.link(BOB, ROLES[0], 1)
        assert await permission_queries.members_of(it.tx, ROLES[0], [ALICE, BOB]) == {BOB}
        assert await permission_queries.members_of(it.tx, ROLES[0], []) == set()
        assert await permission_queries.owners_above(it.tx, Q) == [Q, P, ALICE]
        assert await permission_queries.owners_above(it.tx, ALICE) == [ALICE]


async def test_a_list_names_what_there_is(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.project(Q, BOB)
        await it.link(ALICE, FILE, 1)
        await it.link(BOB, FILE, 1)
        await it.link(BOB, FILE[:-1] + "2", 1)
        shared = (await permission_queries.accessible(it.tx, COLLECTIONS, BOB)).shared
        assert await permission_queries.accessible(it.tx, COLLECTIONS, BOB) == Accessible(
            BOB, (), shared
        )
        assert set(shared or ()) == {FILE, FILE[:-1] + "2"}
        for number, owner in enumerate((ALICE, P, P)):
            record = {
                "uuid": f"c{number}",
                "current_version_uuid": f"c{number}",
                "owner_uuid": owner,
            }
            await records.insert(
                it.tx, COLLECTIONS, {**record, "name": str(number), "portable_data_hash": "x"}
            )
        assert set(
            (await permission_queries.accessible(it.tx, COLLECTIONS, ALICE)).owners or ()
        ) == {ALICE, P}
        monkeypatch.setattr(permission_queries, "SPARSE", 2)
        assert (await permission_queries.accessible(it.tx, COLLECTIONS, ALICE)).dense
        monkeypatch.setattr(permission_queries, "NAMED", 1)
        many = Accessible(ALICE, None, (FILE,), dense=True)
        assert await permission_queries.accessible(it.tx, COLLECTIONS, ALICE) == many


@pytest.mark.parametrize(
    "form",
    [
        Accessible(BOB),
        Accessible(BOB, (P, BOB), (FILE,)),
        Accessible(BOB, (P,), (FILE,), dense=True),
        Accessible(BOB, None, None, dense=True),
    ],
)
async def test_every_form_finds_the_same(database: Database, form: Accessible) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.link(BOB, P, 1)
        await it.link(BOB, FILE, 1)
        for uuid, owner in ((FILE, ALICE), ("in-p", P), ("foreign", ALICE), ("own", BOB)):
            await records.insert(
                it.tx, COLLECTIONS, {"uuid": uuid, "owner_uuid": owner, "portable_data_hash": "x"}
            )
        found = {
            row["uuid"] for row in await records.find(it.tx, database.dialect, COLLECTIONS, [form])
        }
    assert found - {"own"} == {FILE, "in-p"}
    assert ("own" in found) is (BOB in (form.owners or (BOB,)))


async def test_nothing_is_found_where_nothing_is(database: Database) -> None:
    async with database.reading() as tx:
        assert (
            await records.find(tx, database.dialect, COLLECTIONS, [Accessible(BOB, (), ())]) == []
        )


async def test_the_table_of_all(database: Database) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.link(BOB, P, 2)
        query = Query(
            order=(SortKey("user_uuid"), SortKey("target_uuid")),
            select=("user_uuid", "perm_level"),
            limit=2,
        )
        rows = await permission_queries.computed(it.tx, database.dialect, query)
    assert rows == [
        {"user_uuid": BOB, "perm_level": level} for level in ("can_write", "can_manage")
    ]


async def test_the_records_of_many_projects(database: Database) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.project(Q, ALICE)
        for number, owner in enumerate((P, Q, BOB)):
            row = {"uuid": f"c{number}", "owner_uuid": owner, "created_at": str(number)}
            await records.insert(it.tx, COLLECTIONS, {**COLLECTIONS.defaults, **row})
        found = await permission_queries.accessible(it.tx, COLLECTIONS, ALICE, many=1)
        assert (found.owners, found.dense) == (None, True)
        query = Query(where=(found,), order=(SortKey("created_at", descending=True),))
        rows = await records.search(it.tx, database.dialect, COLLECTIONS, query)
        assert [row["uuid"] for row in rows] == ["c1", "c0"]
        few = await permission_queries.accessible(it.tx, COLLECTIONS, ALICE)
        assert sorted(few.owners or ()) == sorted((P, Q))

"""What is stored of cascades, and the pages of their containers."""

from __future__ import annotations

from dataclasses import replace

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import GROUPS
from lading.store import cascades, records
from lading.store.cascades import Cascade, CascadeKind, CascadePage
from lading.store.database import Database

ONE = Cascade(kind=CascadeKind.PROJECT, subject_uuid="p", begun_at="1")


async def test_a_cascade_is_stored_changed_and_finished(database: Database) -> None:
    other = replace(ONE, kind=CascadeKind.QUOTA, begun_at="0", position=("a", "b"), done=3)
    async with database.writing() as tx:
        for one in (ONE, other):
            await cascades.put(tx, one)
        assert await cascades.unfinished(tx, most=9) == [other, ONE]
        moved = replace(ONE, position=("x",), holder="h", held_until="9")
        await cascades.put(tx, moved)
        assert await cascades.get(tx, ONE.kind, "p") == moved
        await cascades.finish(tx, moved)
        assert await cascades.get(tx, ONE.kind, "p") is None
        assert await cascades.unfinished(tx, most=1) == [other]


def test_one_server_at_a_time_holds_it() -> None:
    held = replace(ONE, holder="a", held_until="5")
    assert [held.is_held(holder, "4") for holder in "ab"] == [False, True]
    assert not held.is_held("b", "5")


async def fill(database: Database) -> None:
    async with database.writing() as tx:
        for number in range(5):
            uuid, state = f"c{number}", "Complete" if number == 1 else "Queued"
            await records.insert(tx, CONTAINERS, {"uuid": uuid, "state": state})
            request = {
                "uuid": f"r{number}",
                "container_uuid": uuid,
                "state": "Committed",
                "owner_uuid": "g1" if number < 3 else "g3",
                "requesting_container_uuid": "parent",
                # Those of one call have one time.
                "created_at": "1" if number < 2 else "2",
            }
            await records.insert(tx, REQUESTS, request)
        final = {"uuid": "r9", "state": "Final", "owner_uuid": "g1", "created_at": "1"}
        await records.insert(tx, REQUESTS, {**final, "requesting_container_uuid": "parent"})


async def test_pages_of_projects(database: Database) -> None:
    await fill(database)
    groups, pages = ["g1", "g2", "g3"], list[list[str]]()
    position: tuple[str, ...] | None = ()
    async with database.reading() as tx:
        while position is not None:
            page = await cascades.page_of_projects(tx, database.dialect, groups, position, size=2)
            pages.append(page.container_uuids)
            position = page.position
    # One that has ended takes part in no priority; a page looks at two projects at most.
    assert pages == [["c0"], ["c2"], ["c3", "c4"], []]


async def test_many_projects_without_requests_are_pages(database: Database) -> None:
    async with database.reading() as tx:
        groups = ["a", "b", "c"]
        first = await cascades.page_of_projects(tx, database.dialect, groups, (), size=2)
        assert first == CascadePage([], ("c", "", ""))
        assert first.position is not None
        last = await cascades.page_of_projects(tx, database.dialect, groups, first.position, size=2)
    assert last == CascadePage([], None)


async def test_pages_of_children(database: Database) -> None:
    await fill(database)
    async with database.reading() as tx:
        first = await cascades.page_of_children(tx, database.dialect, "parent", (), size=3)
        assert first == CascadePage(["c0", "c2"], ("2", "r2"))
        last = await cascades.page_of_children(tx, database.dialect, "parent", ("2", "r2"), size=3)
        assert last == CascadePage(["c3", "c4"], None)
        assert sorted(await cascades.children(tx, "parent", most=9)) == [f"r{n}" for n in range(5)]
        assert len(await cascades.children(tx, "parent", most=2)) == 2
        assert await cascades.asking(tx, database.dialect, ["parent", "x"]) == ["parent"]


async def test_some_records_of_an_owner(database: Database) -> None:
    async with database.writing() as tx:
        for number in range(3):
            await records.insert(tx, GROUPS, {"uuid": f"g{number}", "owner_uuid": "o"})
        assert len(await records.owned(tx, GROUPS, "o", most=2)) == 2

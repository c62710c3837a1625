"""Lists: envelope, paging, selecting."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.api.resources import generic
from lading.core.errors import Conflict
from lading.core.records.record_types import LINKS
from lading.core.records.schema import Record
from lading.testing.world import World, world


async def test_envelope(it: World) -> None:
    body = await it.ok("GET", "workflows", params={"limit": 0})
    assert body == {
        "kind": "arvados#workflowList",
        "etag": "",
        "self_link": "",
        "offset": 0,
        "limit": 0,
        "items": [],
        "included": [],
        "items_available": 0,
    }
    assert "items_available" not in await it.ok("GET", "links", params={"count": "none"})
    assert (await it.ok("GET", "links", params={"limit": 99999}))["limit"] == 1000


async def test_keyset_paging(it: World) -> None:
    names = [f"l{number}" for number in range(5)]
    for name in names:
        await it.ok("POST", "links", {"link_class": "tag", "name": name})
    seen: list[str] = []
    filters: list[list[str]] = []
    while True:
        wanted = [["link_class", "=", "tag"], *filters]
        params: Record = {
            "order": ["created_at asc", "uuid asc"],
            "limit": 2,
            "count": "none",
            "filters": wanted,
        }
        items = (await it.ok("GET", "links", params=params))["items"]
        if not items:
            break
        seen += [one["name"] for one in items]
        last = items[-1]
        filters = [["created_at", ">=", last["created_at"]], ["uuid", "!=", last["uuid"]]]
    assert seen == names


@pytest.mark.parametrize(
    "params",
    [
        {"limit": -1},
        {"filters": [["nope", "=", 1]]},
        {"select": []},
        {"count": "x"},
        {"order": {"a": 1}},
        {"offset": "x"},
    ],
)
async def test_faults(it: World, params: Record) -> None:
    assert (await it.request("GET", "links", params=params)).status == 422


async def test_a_change_that_came_too_late(it: World) -> None:
    made = await it.ok("POST", "links", {"link_class": "tag"})
    async with it.database.writing() as tx:
        old = {**LINKS.defaults, **made, "modified_at": "before"}
        with pytest.raises(Conflict, match="changed at the same time"):
            await generic.apply(tx, it.app.services, LINKS, old, {"name": "x"}, user_uuid="u")


async def test_select_of_what_was_written(it: World) -> None:
    selected = {"select": ["uuid", "name"]}
    for plural, body in (
        ("collections", {"name": "a"}),
        ("links", {"link_class": "tag", "name": "a"}),
        ("container_requests", await it.spec(state="Uncommitted")),
        ("workflows", {"name": "a"}),
    ):
        made = await it.ok("POST", plural, body, params=selected)
        assert made.keys() == {"uuid", "name", "kind", "etag"}
        path = f"{plural}/{made['uuid']}"
        assert (await it.ok("PUT", path, {"name": "b", "select": ["name"]}))["name"] == "b"
        assert (
            await it.request("PUT", path, {"name": "c"}, params={"select": ["nothing"]})
        ).status == 422
        assert (await it.ok("DELETE", path, params={"select": ["name"]})).keys() == {
            "name",
            "kind",
            "etag",
        }


async def test_distinct_rows_are_counted_once(it: World) -> None:
    for name in ("x", "y", "x", "z", "y"):
        await it.ok("POST", "links", {"link_class": "distinct", "name": name})
    params: Record = {
        "filters": [["link_class", "=", "distinct"]],
        "select": ["name"],
        "distinct": True,
        "limit": 2,
    }
    first = await it.ok("GET", "links", params={**params, "order": "name desc"})
    assert (first["items"], first["items_available"]) == ([{"name": "z"}, {"name": "y"}], 3)
    pages = [
        (await it.ok("GET", "links", params={**params, "offset": at}))["items"] for at in (0, 2)
    ]
    assert sorted(one["name"] for page in pages for one in page) == ["x", "y", "z"]
    reply = await it.request("GET", "links", params={**params, "select": ["head_kind"]})
    assert (reply.status, "computed" in reply.error) == (422, True)


@pytest.mark.parametrize("select", [None, ["uuid", "name", "properties"]])
async def test_an_answer_has_the_first_items_up_to_so_many_bytes(
    tmp_path: Path, select: list[str] | None
) -> None:
    async with world(tmp_path, API={"MaxIndexDatabaseRead": 25_000}) as it:
        for number in range(5):
            given = {"name": f"w{number}", "definition": "", "description": "x" * 10_000}
            await it.ok("POST", "workflows", given)
            await it.ok(
                "POST",
                "links",
                {"link_class": "tag", "name": f"w{number}", "properties": {"a": "x" * 10_000}},
            )
        params: Record = {"order": "name", "filters": [["link_class", "=", "tag"]]}
        if select is not None:
            params["select"] = select
        body = await it.ok("GET", "links", params=params)
        assert [one["name"] for one in body["items"]] == ["w0", "w1"]
        assert (body["items_available"], body["limit"]) == (5, 100)
        body = await it.ok("GET", "links", params={**params, "offset": 2})
        assert [one["name"] for one in body["items"]] == ["w2", "w3"]
        body = await it.ok("GET", "workflows", params={"order": "name", "limit": 3})
        assert (len(body["items"]), body["items_available"]) == (2, 5)


async def test_one_item_at_least_is_in_an_answer(tmp_path: Path) -> None:
    async with world(tmp_path, API={"MaxIndexDatabaseRead": 1}) as it:
        for number in range(3):
            await it.ok("POST", "links", {"link_class": "tag", "name": f"w{number}"})
        seen: list[str] = []
        while items := (await it.ok("GET", "links", params={"order": "name", "offset": len(seen)}))[
            "items"
        ]:
            seen += [one["name"] for one in items if one["link_class"] == "tag"] or [""]
        assert [name for name in seen if name] == ["w0", "w1", "w2"]


@pytest.mark.parametrize("count", ["exact", "none"])
async def test_contents_go_on_with_the_next_page(tmp_path: Path, count: str) -> None:
    async with world(tmp_path, API={"MaxIndexDatabaseRead": 50_000}) as it:
        project = (await it.ok("POST", "groups", {"group_class": "project", "name": "p"}))["uuid"]
        for number in range(4):
            more = {"owner_uuid": project, "name": f"n{number}"}
            await it.ok(
                "POST", "workflows", {**more, "definition": "", "description": "x" * 10_000}
            )
            await it.ok(
                "POST", "groups", {**more, "group_class": "project", "description": "x" * 10_000}
            )
        seen: list[str] = []
        pages = 0
        while True:
            params: Record = {"offset": len(seen), "count": count}
            items = (await it.ok("GET", f"groups/{project}/contents", params=params))["items"]
            if not items:
                break
            pages += 1
            seen += [one["uuid"] for one in items]
        assert len(seen) == len(set(seen)) == 8
        assert pages > 2

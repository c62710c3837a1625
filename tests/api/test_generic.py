"""Lists: envelope, paging, selecting."""

from __future__ import annotations

import pytest

from lading.api import generic
from lading.core.errors import Conflict
from lading.core.records import LINKS
from lading.core.schema import Record
from lading.testing.world import World


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
        params: Record = {"order": ["created_at asc", "uuid asc"], "limit": 2, "count": "none", "filters": wanted}
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
        with pytest.raises(Conflict, match="somebody else"):
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
        assert (await it.request("PUT", path, {"name": "c"}, params={"select": ["nothing"]})).status == 422
        assert (await it.ok("DELETE", path, params={"select": ["name"]})).keys() == {"name", "kind", "etag"}


async def test_distinct_rows_are_counted_once(it: World) -> None:
    for name in ("x", "y", "x", "z", "y"):
        await it.ok("POST", "links", {"link_class": "distinct", "name": name})
    params: Record = {"filters": [["link_class", "=", "distinct"]], "select": ["name"], "distinct": True, "limit": 2}
    first = await it.ok("GET", "links", params={**params, "order": "name desc"})
    assert (first["items"], first["items_available"]) == ([{"name": "z"}, {"name": "y"}], 3)
    pages = [(await it.ok("GET", "links", params={**params, "offset": at}))["items"] for at in (0, 2)]
    assert sorted(one["name"] for page in pages for one in page) == ["x", "y", "z"]
    reply = await it.request("GET", "links", params={**params, "select": ["head_kind"]})
    assert (reply.status, "computed" in reply.error) == (422, True)

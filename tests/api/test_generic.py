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

"""`include` on lists."""

from __future__ import annotations

import pytest

from lading.core.records.schema import JSON
from lading.testing.world import World


@pytest.mark.parametrize(
    "include", [["container_uuid"], "container_uuid", "container_uuid,container_uuid"]
)
async def test_containers_of_requests(it: World, include: JSON) -> None:
    first, second = await it.submit("a"), await it.submit("b")
    uncommitted = await it.submit("c", state="Uncommitted")
    page = await it.ok("GET", "container_requests", params={"include": include, "select": ["uuid"]})
    assert {one["uuid"] for one in page["items"]} == {
        one["uuid"] for one in (first, second, uncommitted)
    }
    assert "container_uuid" not in page["items"][0]
    wanted = sorted([first["container_uuid"], second["container_uuid"]])
    assert [one["uuid"] for one in page["included"]] == wanted
    assert page["included"][0]["kind"] == "arvados#container"


async def test_what_cannot_be_read_is_not_included(it: World) -> None:
    user = await it.user("u")
    hidden = await it.ok("POST", "collections", {"name": "hidden"})
    link = await it.ok(
        "POST", "links", {"link_class": "tag", "name": "t", "head_uuid": hidden["uuid"]}
    )
    owner = (await it.ok("GET", "users/current", token=user))["uuid"]
    await it.ok("PUT", f"links/{link['uuid']}", {"owner_uuid": owner})
    params = {"include": ["head_uuid"], "filters": [["uuid", "=", link["uuid"]]]}
    assert (await it.ok("GET", "links", token=user, params=params))["included"] == []
    assert [one["uuid"] for one in (await it.ok("GET", "links", params=params))["included"]] == [
        hidden["uuid"]
    ]


@pytest.mark.parametrize("include", [["name"], ["nothing_uuid"], [5], {"a": 1}])
async def test_faults(it: World, include: JSON) -> None:
    reply = await it.request("GET", "links", params={"include": include})
    assert (reply.status, "include" in reply.error) == (422, True)


async def test_distinct_rows_name_nothing(it: World) -> None:
    params = {"include": ["head_uuid"], "distinct": True, "select": ["name"]}
    assert (await it.request("GET", "links", params=params)).status == 422

"""Links."""

from __future__ import annotations

import pytest

from lading.core.schema import Record
from lading.testing.world import World


async def test_tags(it: World) -> None:
    head = (await it.ok("POST", "collections", {"name": "c"}))["uuid"]
    body = {"link_class": "tag", "name": "", "head_uuid": head}
    made = await it.ok("POST", "links", body)
    assert (made["name"], made["head_kind"]) == ("", "arvados#collection")
    filters = [["link_class", "=", "tag"], ["head_uuid", "is_a", "arvados#collection"]]
    found = await it.ok("GET", "links", params={"filters": filters, "select": ["name"], "distinct": True})
    assert found["items"] == [{"name": ""}]
    path = f"links/{made['uuid']}"
    assert (await it.ok("PUT", path, {"name": "t"}))["name"] == "t"
    assert (await it.ok("GET", path))["name"] == "t"
    await it.ok("DELETE", path)
    assert (await it.request("GET", path)).status == 404


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "link_class: can't be blank"),
        ({"link_class": "tag", "head_uuid": "zzzzz-4zz18-000000000000009"}, "head_uuid: 'zzzzz-4zz18-00"),
        ({"link_class": "tag", "tail_uuid": "nonsense"}, "tail_uuid: 'nonsense' not found"),
        ({"link_class": "tag", "properties": []}, "properties: must be an object"),
    ],
)
async def test_faults(it: World, body: Record, fault: str) -> None:
    reply = await it.request("POST", "links", body)
    assert reply.status == 422
    assert fault in reply.error


async def test_ends(it: World) -> None:
    token = await it.user("u")
    me = (await it.ok("GET", "users/current", token=token))["uuid"]
    ends = {"head_uuid": f"{'0' * 32}+5", "tail_uuid": me}
    made = await it.ok("POST", "links", {"link_class": "star", **ends}, token=token)
    assert made["tail_kind"] == "arvados#user"
    await it.ok("PUT", f"links/{made['uuid']}", made, token=token)
    foreign = (await it.ok("POST", "collections", {"name": "c"}))["uuid"]
    reply = await it.request("POST", "links", {"link_class": "tag", "head_uuid": foreign}, token=token)
    assert reply.status == 422
    service = "zzzzz-bi6l4-000000000000000"
    assert (await it.request("POST", "links", {"link_class": "tag", "head_uuid": service})).status == 200

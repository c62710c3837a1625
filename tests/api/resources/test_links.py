"""Links."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from lading.testing.world import World


async def test_tags(it: World) -> None:
    head = (await it.ok("POST", "collections", {"name": "c"}))["uuid"]
    body = {"link_class": "tag", "name": "", "head_uuid": head}
    made = await it.ok("POST", "links", body)
    assert (made["name"], made["head_kind"]) == ("", "arvados#collection")
    filters = [["link_class", "=", "tag"], ["head_uuid", "is_a", "arvados#collection"]]
    found = await it.ok(
        "GET", "links", params={"filters": filters, "select": ["name"], "distinct": True}
    )
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
        (
            {"link_class": "tag", "head_uuid": "zzzzz-4zz18-000000000000009"},
            "head_uuid: 'zzzzz-4zz18-00",
        ),
        ({"link_class": "tag", "tail_uuid": "nonsense"}, "tail_uuid: 'nonsense' not found"),
        ({"link_class": "tag", "properties": []}, "properties: must be an object"),
    ],
)
async def test_faults(it: World, body: Record, fault: str) -> None:
    reply = await it.request("POST", "links", body)
    assert reply.status == 422
    assert fault in reply.error


async def test_a_link_moves_only_where_its_user_may_write(it: World) -> None:
    token = await it.user("u")
    me = (await it.ok("GET", "users/current", token=token))["uuid"]
    body = {"link_class": "star", "name": "a", "tail_uuid": me}
    made = await it.ok("POST", "links", body, token=token)
    project = await it.ok("POST", "groups", {"name": "p", "group_class": "project"})
    own = await it.ok("POST", "groups", {"name": "o", "group_class": "project"}, token=token)
    path, foreign = f"links/{made['uuid']}", project["uuid"]
    assert (await it.request("PUT", path, {"owner_uuid": foreign}, token=token)).status in (
        403,
        422,
    )
    assert (await it.ok("GET", path, token=token))["owner_uuid"] == me
    moved = await it.ok("PUT", path, {"owner_uuid": own["uuid"]}, token=token)
    assert moved["owner_uuid"] == own["uuid"]


async def test_ends(it: World) -> None:
    token = await it.user("u")
    me = (await it.ok("GET", "users/current", token=token))["uuid"]
    ends = {"head_uuid": f"{'0' * 32}+5", "tail_uuid": me}
    made = await it.ok("POST", "links", {"link_class": "star", **ends}, token=token)
    assert made["tail_kind"] == "arvados#user"
    await it.ok("PUT", f"links/{made['uuid']}", made, token=token)
    foreign = (await it.ok("POST", "collections", {"name": "c"}))["uuid"]
    reply = await it.request(
        "POST", "links", {"link_class": "tag", "head_uuid": foreign}, token=token
    )
    assert reply.status == 422
    service = "zzzzz-bi6l4-000000000000000"
    assert (
        await it.request("POST", "links", {"link_class": "tag", "head_uuid": service})
    ).status == 200


async def test_filters_on_the_kinds_of_the_ends(it: World) -> None:
    head = (await it.ok("POST", "collections", {"name": "c"}))["uuid"]
    user = (await it.ok("GET", "users/current", token=await it.user("u")))["uuid"]
    body = {"link_class": "permission", "name": "can_read", "tail_uuid": user, "head_uuid": head}
    made = (await it.ok("POST", "links", body))["uuid"]
    for filters, found in (
        ([["head_kind", "=", "arvados#collection"], ["tail_kind", "=", "arvados#user"]], True),
        ([["head_kind", "in", ["arvados#group", "arvados#collection"]]], True),
        ([["head_kind", "=", "arvados#group"]], False),
        ([["tail_kind", "is_a", "arvados#group"]], False),
    ):
        items = (await it.ok("GET", "links", params={"filters": filters}))["items"]
        assert (made in [one["uuid"] for one in items]) == found
    reply = await it.request("GET", "links", params={"filters": [["head_kind", "like", "x"]]})
    assert (reply.status, "must be =, in or is_a" in reply.error) == (422, True)


async def test_permissions_on_a_record(it: World) -> None:
    owner, reader = await it.user("u"), await it.user("v")
    head = (await it.ok("POST", "collections", {"name": "c"}, token=owner))["uuid"]
    reading = (await it.ok("GET", "users/current", token=reader))["uuid"]
    body = {"link_class": "permission", "name": "can_read", "tail_uuid": reading, "head_uuid": head}
    made = await it.ok("POST", "links", body, token=owner)
    found = await it.ok("GET", f"permissions/{head}", token=owner)
    assert (found["kind"], [one["uuid"] for one in found["items"]]) == (
        "arvados#linkList",
        [made["uuid"]],
    )
    assert (await it.request("GET", f"permissions/{head}", token=reader)).status == 403
    assert (await it.request("GET", f"permissions/{head}", token=await it.user("w"))).status == 404
    for uuid in ("nonsense", made["uuid"], "zzzzz-4zz18-000000000000009"):
        assert (await it.request("GET", f"permissions/{uuid}", token=owner)).status == 404

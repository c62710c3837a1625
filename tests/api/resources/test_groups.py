"""Groups."""

from __future__ import annotations

import pytest

from lading.api.events import timers
from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, status, uuid_of


async def test_projects(it: World) -> None:
    token = await it.user("u")
    made = await group(it, "p", token=token, description="d")
    assert (made["kind"], made["can_write"], made["can_manage"]) == ("arvados#group", True, True)
    assert made["owner_uuid"] in made["writable_by"]
    changed = await it.ok(
        "PUT", f"groups/{made['uuid']}", {"name": "q", "group_class": "project"}, token=token
    )
    assert changed["name"] == "q"
    same = await it.ok("PUT", f"groups/{made['uuid']}", changed, token=token)
    assert same["modified_at"] == changed["modified_at"]
    nameless = await it.ok("POST", "groups", {"group_class": "project"}, token=token)
    assert nameless["name"] == nameless["uuid"]
    found = await it.ok(
        "GET", "groups", token=token, params={"filters": [["group_class", "=", "project"]]}
    )
    assert made["uuid"] in [one["uuid"] for one in found["items"]]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "group_class: must be"),
        ({"group_class": "project", "name": "a/b"}, "name: cannot contain"),
        ({"group_class": "filter"}, "properties.filters"),
        (
            {"group_class": "filter", "properties": {"filters": [["nope", "=", 1]]}},
            "Invalid attribute 'nope'",
        ),
        ({"group_class": "project", "delete_at": "2026-01-03T00:00:00Z"}, "together with trash_at"),
        ({"group_class": "role", "is_trashed": True}, "a role has no trash"),
    ],
)
async def test_faults(it: World, body: Record, fault: str) -> None:
    reply = await it.request("POST", "groups", body)
    assert (reply.status, fault in reply.error) == (422, True)


async def test_names_are_unique_for_an_owner(it: World) -> None:
    first = await group(it, "p")
    body = {"name": "p", "group_class": "project"}
    reply = await it.request("POST", "groups", body)
    assert (reply.status, "duplicate key" in reply.error) == (422, True)
    second = await it.ok("POST", "groups", body, params={"ensure_unique_name": True})
    assert second["name"] == f"p ({second['uuid'][-15:]})"
    await it.ok("DELETE", f"groups/{first['uuid']}")
    assert await status(it, "PUT", f"groups/{second['uuid']}", {"name": "p"}) == 200
    assert await status(it, "POST", f"groups/{first['uuid']}/untrash") == 422
    back = await it.ok(
        "POST", f"groups/{first['uuid']}/untrash", params={"ensure_unique_name": True}
    )
    assert back["name"].startswith("p (")
    assert await status(it, "POST", f"groups/{first['uuid']}/untrash") == 422


async def test_projects_move_but_not_into_themselves(it: World) -> None:
    outer, inner = await group(it, "outer"), await group(it, "inner")
    moved = await it.ok("PUT", f"groups/{inner['uuid']}", {"owner_uuid": outer["uuid"]})
    assert moved["owner_uuid"] == outer["uuid"]
    for owner in (inner["uuid"], outer["uuid"]):
        reply = await it.request("PUT", f"groups/{outer['uuid']}", {"owner_uuid": owner})
        assert (reply.status, "would own itself" in reply.error) == (422, True)


async def test_roles_belong_to_the_system_and_their_makers_manage_them(it: World) -> None:
    token, other = await it.user("u"), await it.user("v")
    role = await group(it, "r", token=token, group_class="role")
    assert role["owner_uuid"] == it.app.services.ids.system_user
    assert role["can_manage"]
    seen = await it.ok("GET", f"groups/{role['uuid']}", token=other)
    assert (seen["can_write"], seen["writable_by"]) == (False, [])
    assert await status(it, "DELETE", f"groups/{role['uuid']}", token=other) == 403
    kept = await it.ok(
        "PUT", f"groups/{role['uuid']}", {"owner_uuid": await uuid_of(it, "u")}, token=token
    )
    assert kept["owner_uuid"] == it.app.services.ids.system_user
    await it.ok("DELETE", f"groups/{role['uuid']}", token=token)
    assert (
        await it.request("GET", f"groups/{role['uuid']}", params={"include_trash": True})
    ).status == 404
    assert (await it.ok("GET", "links", params={"filters": [["head_uuid", "=", role["uuid"]]]}))[
        "items"
    ] == []


async def test_readers_cannot_write(it: World) -> None:
    project = await group(it, "p")
    await share(it, await uuid_of(it, "u"), project["uuid"], "can_read")
    reply = await it.request(
        "PUT", f"groups/{project['uuid']}", {"name": "q"}, token=await it.user("u")
    )
    assert (reply.status, "you lack can_write" in reply.error) == (403, True)
    frozen = {"frozen_by_uuid": await uuid_of(it, "u")}
    await share(it, await uuid_of(it, "u"), project["uuid"], "can_write")
    assert (
        await status(it, "PUT", f"groups/{project['uuid']}", frozen, token=await it.user("u"))
        == 403
    )


async def test_what_holds_a_frozen_project_is_not_trashed(it: World) -> None:
    outer = await group(it, "outer")
    inner = await group(it, "inner", owner_uuid=outer["uuid"])
    admin = (await it.ok("GET", "users/current"))["uuid"]
    shown = await it.ok("PUT", f"groups/{inner['uuid']}", {"frozen_by_uuid": admin})
    assert (shown["can_write"], shown["can_manage"]) == (False, True)
    assert await status(it, "DELETE", f"groups/{outer['uuid']}") == 403


@pytest.mark.parametrize(
    "name", ["000000000000000", "fffffffffffffff", "anonymouspublic", "publicfavorites"]
)
async def test_groups_of_every_installation_stay(it: World, name: str) -> None:
    path = f"groups/zzzzz-j7d0g-{name}"
    assert (await it.ok("GET", path))["name"]
    assert await status(it, "DELETE", path) == 422


async def test_when_its_time_is_over_all_goes(it: World) -> None:
    outer = await group(it, "outer")
    inner = await group(it, "inner", owner_uuid=outer["uuid"])
    made = await it.submit(owner_uuid=inner["uuid"])
    kept = await it.ok("POST", "collections", {"owner_uuid": inner["uuid"]})
    await it.ok("DELETE", f"groups/{outer['uuid']}")
    it.clock.advance(15 * 86400)
    await timers.sweep(it.app.services)
    for path in (
        f"groups/{outer['uuid']}",
        f"groups/{inner['uuid']}",
        f"collections/{kept['uuid']}",
    ):
        assert (await it.request("GET", path, params={"include_trash": True})).status == 404
    assert await status(it, "GET", f"container_requests/{made['uuid']}") == 404
    assert (await it.ok("GET", f"containers/{made['container_uuid']}"))["state"] == "Cancelled"

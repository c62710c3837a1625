"""Records as different callers see them."""

from __future__ import annotations

from lading.core.records.access import PUBLIC
from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, uuid_of


async def test_levels_are_those_of_the_caller(it: World) -> None:
    u, v = await it.user("u"), await it.user("v")
    project = await group(it, "p", token=u)
    await share(it, await uuid_of(it, "v"), project["uuid"], "can_read", token=u)
    wanted: Record = {
        "filters": [["uuid", "=", project["uuid"]]],
        "select": ["can_write", "writable_by"],
    }
    (mine,) = (await it.ok("GET", "groups", token=u, params=wanted))["items"]
    (theirs,) = (await it.ok("GET", "groups", token=v, params=wanted))["items"]
    assert (mine["can_write"], mine["writable_by"]) == (True, [await uuid_of(it, "u")])
    assert (theirs["can_write"], theirs["writable_by"]) == (False, [])
    admin = await it.ok("GET", f"groups/{project['uuid']}")
    assert admin["can_manage"]


async def test_of_others_only_the_public_part_is_seen(it: World) -> None:
    u, other = await it.user("u"), await uuid_of(it, "v")
    seen = await it.ok("GET", f"users/{other}", token=u)
    assert seen.keys() == PUBLIC
    assert (seen["can_write"], seen["can_manage"], seen["is_invited"]) == (False, False, True)
    listed = {one["uuid"]: one for one in (await it.ok("GET", "users", token=u))["items"]}
    assert listed[other].keys() <= PUBLIC
    assert "prefs" in listed[await uuid_of(it, "u")]
    assert "prefs" in (await it.ok("GET", f"users/{other}"))


async def test_rows_made_distinct(it: World) -> None:
    await group(it, "p")
    found = await it.ok(
        "GET",
        "groups",
        params={"select": ["group_class"], "distinct": True, "order": "group_class"},
    )
    assert found["items"] == [{"group_class": "project"}, {"group_class": "role"}]

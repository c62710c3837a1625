"""Everybody's permissions."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, status, uuid_of


async def test_a_page(it: World) -> None:
    u, v = await uuid_of(it, "u"), await uuid_of(it, "v")
    project = await group(it, "p", token=await it.user("u"))
    await share(it, v, project["uuid"], "can_write")
    wanted: Record = {"filters": [["target_uuid", "=", project["uuid"]]], "count": "none"}
    found = await it.ok("GET", "computed_permissions", params=wanted)
    assert found["kind"] == "arvados#computedPermissionList"
    assert {one["user_uuid"]: one["perm_level"] for one in found["items"]} == {
        u: "can_manage",
        v: "can_write",
    }
    some = await it.ok(
        "GET", "computed_permissions", params={**wanted, "select": ["user_uuid"], "limit": 1}
    )
    assert some["items"] == [{"user_uuid": min(u, v), "kind": "arvados#computedPermission"}]
    back = await it.ok("GET", "computed_permissions", params={**wanted, "order": "user_uuid desc"})
    assert [one["user_uuid"] for one in back["items"]] == sorted((u, v), reverse=True)
    assert (await it.ok("GET", "computed_permissions", params={**wanted, "limit": 0}))[
        "items"
    ] == []
    level: Record = {
        "filters": [["perm_level", "=", "can_write"], ["target_uuid", "=", project["uuid"]]]
    }
    assert [
        one["user_uuid"]
        for one in (await it.ok("GET", "computed_permissions", params=level))["items"]
    ] == [v]


@pytest.mark.parametrize(
    "params", [{"count": "exact"}, {"offset": 1}, {"filters": [["uuid", "=", "x"]]}]
)
async def test_faults(it: World, params: Record) -> None:
    assert (await it.request("GET", "computed_permissions", params=params)).status == 422


async def test_only_admins(it: World) -> None:
    assert await status(it, "GET", "computed_permissions", token=await it.user("u")) == 403

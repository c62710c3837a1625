"""Permission links."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, status, uuid_of


async def test_equal_links_are_merged_and_the_higher_level_stays(it: World) -> None:
    token = await it.user("u")
    project = await group(it, "p", token=token)
    v = await uuid_of(it, "v")
    first = await share(it, v, project["uuid"], "can_write", token=token)
    assert first["owner_uuid"] == it.app.services.ids.system_user
    second = await share(it, v, project["uuid"], "can_read", token=token)
    assert (second["uuid"], second["name"]) == (first["uuid"], "can_write")
    third = await share(it, v, project["uuid"], "can_manage", token=token)
    assert (third["uuid"], third["name"]) == (first["uuid"], "can_manage")


async def test_who_sees_and_changes_them(it: World) -> None:
    u, v, w = [await it.user(name) for name in "uvw"]
    project = await group(it, "p", token=u)
    file = await it.collection({"a": b"x"}, token=u, owner_uuid=project["uuid"])
    for head in (project["uuid"], file["uuid"]):
        link = await share(it, await uuid_of(it, "v"), head, "can_read", token=u)
        path = f"links/{link['uuid']}"
        assert [await status(it, "GET", path, token=token) for token in (u, v, w, None)] == [
            200,
            200,
            404,
            200,
        ]
        assert await status(it, "PUT", path, {"name": "can_manage"}, token=v) == 403
        assert await status(it, "DELETE", path, token=v) == 403
        assert (await it.ok("PUT", path, {"name": "can_write"}, token=u))["name"] == "can_write"
        listed = await it.ok(
            "GET", "links", token=v, params={"filters": [["link_class", "=", "permission"]]}
        )
        assert link["uuid"] in [one["uuid"] for one in listed["items"]]
        await it.ok("DELETE", path, token=u)
        assert await status(it, "GET", path, token=v) == 404
    assert await status(it, "GET", f"groups/{project['uuid']}", token=v) == 404


async def test_only_managers_share(it: World) -> None:
    project = await group(it, "p")
    v = await uuid_of(it, "v")
    await share(it, await uuid_of(it, "u"), project["uuid"], "can_write")
    body = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": v,
        "head_uuid": project["uuid"],
    }
    reply = await it.request("POST", "links", body, token=await it.user("u"))
    assert (reply.status, "you lack can_manage" in reply.error) == (403, True)


async def test_only_the_name_changes(it: World) -> None:
    project, other = await group(it, "p"), await group(it, "q")
    link = await share(it, await uuid_of(it, "u"), project["uuid"], "can_read")
    path = f"links/{link['uuid']}"
    for changes in ({"head_uuid": other["uuid"]}, {"link_class": "tag"}, {"name": "can_fly"}):
        assert await status(it, "PUT", path, changes) == 422
    tag = await it.ok("POST", "links", {"link_class": "tag", "head_uuid": project["uuid"]})
    assert await status(it, "PUT", f"links/{tag['uuid']}", {"link_class": "permission"}) in (
        403,
        422,
    )


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": "can_fly"}, "name: a permission link"),
        ({"tail_uuid": None}, "tail_uuid: permissions are given"),
        (
            {"tail_uuid": "zzzzz-tpzed-000000000000009"},
            "tail_uuid: 'zzzzz-tpzed-000000000000009' not found",
        ),
        (
            {"head_uuid": "zzzzz-4zz18-000000000000009"},
            "head_uuid: 'zzzzz-4zz18-000000000000009' not found",
        ),
        ({"head_uuid": "zzzzz-dz642-000000000000009"}, "head_uuid: must be"),
        ({"head_uuid": "nonsense"}, "head_uuid: must be"),
    ],
)
async def test_faults(it: World, changes: Record, fault: str) -> None:
    project, tail = await group(it, "p"), await uuid_of(it, "u")
    good = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": tail,
        "head_uuid": project["uuid"],
    }
    reply = await it.request("POST", "links", {**good, **changes})
    assert (reply.status, fault in reply.error) == (422, True)


async def test_what_cannot_be_read_cannot_be_shared(it: World) -> None:
    hidden = await group(it, "p")
    body = {"link_class": "permission", "name": "can_read", "tail_uuid": await uuid_of(it, "u")}
    reply = await it.request(
        "POST", "links", {**body, "head_uuid": hidden["uuid"]}, token=await it.user("u")
    )
    assert (reply.status, "not found" in reply.error) == (422, True)


async def test_members_of_a_role_have_what_it_has(it: World) -> None:
    u, v = await it.user("u"), await it.user("v")
    role, project = await group(it, "r", token=u, group_class="role"), await group(it, "p", token=u)
    await share(it, role["uuid"], project["uuid"], "can_write", token=u)
    assert await status(it, "GET", f"groups/{project['uuid']}", token=v) == 404
    link = await share(it, await uuid_of(it, "v"), role["uuid"], "can_manage", token=u)
    assert (await it.ok("GET", f"groups/{project['uuid']}", token=v))["can_write"]
    await it.ok("PUT", f"links/{link['uuid']}", {"name": "can_read"}, token=u)
    assert not (await it.ok("GET", f"groups/{project['uuid']}", token=v))["can_write"]
    await it.ok("DELETE", f"links/{link['uuid']}", token=u)
    assert await status(it, "GET", f"groups/{project['uuid']}", token=v) == 404


async def test_links_to_what_is_deleted_go_with_it(it: World) -> None:
    token = await it.user("u")
    made = await it.ok("POST", "workflows", {"name": "w"}, token=token)
    link = await share(it, await uuid_of(it, "v"), made["uuid"], "can_read", token=token)
    await it.ok("DELETE", f"workflows/{made['uuid']}", token=token)
    assert await status(it, "GET", f"links/{link['uuid']}") == 404

"""Who may read, write and own, through the API."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, status, uuid_of


async def shared_collection(it: World, level: str | None) -> tuple[str, str, str]:
    """A collection in a project of u's that v has a level on: its uuid, the tokens of u and v."""
    u, v = await it.user("u"), await it.user("v")
    project = await group(it, "p", token=u)
    made = await it.collection({"a": b"x"}, token=u, owner_uuid=project["uuid"])
    if level:
        await share(it, await uuid_of(it, "v"), project["uuid"], level, token=u)
    return made["uuid"], u, v


@pytest.mark.parametrize(
    ("level", "reads", "writes"),
    [(None, 404, 404), ("can_read", 200, 403), ("can_write", 200, 200), ("can_manage", 200, 200)],
)
async def test_levels_on_a_project(it: World, level: str | None, reads: int, writes: int) -> None:
    uuid, _, v = await shared_collection(it, level)
    assert await status(it, "GET", f"collections/{uuid}", token=v) == reads
    assert await status(it, "PUT", f"collections/{uuid}", {"name": "n"}, token=v) == writes
    found = await it.ok("GET", "collections", token=v, params={"filters": [["uuid", "=", uuid]]})
    assert found["items_available"] == (1 if level else 0)


async def test_content_is_read_by_hash_with_the_same_rule(it: World) -> None:
    uuid, u, v = await shared_collection(it, None)
    pdh = (await it.ok("GET", f"collections/{uuid}", token=u))["portable_data_hash"]
    assert await status(it, "GET", f"collections/{pdh}", token=v) == 404
    await share(it, await uuid_of(it, "v"), uuid, "can_read", token=u)
    assert await status(it, "GET", f"collections/{pdh}", token=v) == 200
    assert await status(it, "PUT", f"collections/{uuid}", {"name": "n"}, token=v) == 403


async def test_mounts_and_images_are_read_with_the_same_rule(it: World) -> None:
    uuid, u, v = await shared_collection(it, None)
    image = await it.collection({f"sha256:{'1' * 64}.tar": b"image"}, token=u)
    mounts = {"/out": {"kind": "tmp", "capacity": 1}, "/in": {"kind": "collection", "uuid": uuid}}
    spec = await it.spec(token=v, mounts=mounts)
    assert await status(it, "POST", "container_requests", spec, token=v) == 422
    await share(it, await uuid_of(it, "v"), uuid, "can_read", token=u)
    assert await status(it, "POST", "container_requests", spec, token=v) == 200
    spec = {**spec, "container_image": image["portable_data_hash"]}
    assert await status(it, "POST", "container_requests", spec, token=v) == 422
    await share(it, await uuid_of(it, "v"), image["uuid"], "can_read", token=u)
    assert await status(it, "POST", "container_requests", spec, token=v) == 200


async def test_containers_and_logs_are_read_through_requests(it: World) -> None:
    u, v = await it.user("u"), await it.user("v")
    project = await group(it, "p", token=u)
    made = await it.submit(token=u, owner_uuid=project["uuid"])
    path = f"containers/{made['container_uuid']}"
    about: Record = {"filters": [["object_uuid", "in", [made["uuid"], made["container_uuid"]]]]}
    assert await status(it, "GET", path, token=v) == 404
    assert (await it.ok("GET", "logs", token=v, params=about))["items"] == []
    await share(it, await uuid_of(it, "v"), project["uuid"], "can_read", token=u)
    assert await status(it, "GET", path, token=v) == await status(it, "GET", path, token=u) == 200
    assert len((await it.ok("GET", "containers", token=v))["items"]) == 1
    rows = (await it.ok("GET", "logs", token=v, params=about))["items"]
    assert {row["object_uuid"] for row in rows} == {made["uuid"], made["container_uuid"]}
    assert await status(it, "POST", f"container_requests/{made['uuid']}/cancel", token=v) == 403
    await it.ok("POST", f"groups/{project['uuid']}/trash", token=u)
    assert await status(it, "GET", path, token=v) == 404


@pytest.mark.parametrize(
    ("level", "expected"), [(None, 422), ("can_read", 403), ("can_write", 200)]
)
async def test_owners_must_be_writable(it: World, level: str | None, expected: int) -> None:
    u, v = await it.user("u"), await it.user("v")
    project = await group(it, "p", token=u)
    if level:
        await share(it, await uuid_of(it, "v"), project["uuid"], level, token=u)
    owner = {"owner_uuid": project["uuid"]}
    assert await status(it, "POST", "collections", {"name": "n", **owner}, token=v) == expected
    mine = await it.ok("POST", "workflows", {"name": "mine"}, token=v)
    assert await status(it, "PUT", f"workflows/{mine['uuid']}", owner, token=v) == expected


async def test_the_old_owner_must_be_writable_too(it: World) -> None:
    uuid, u, v = await shared_collection(it, None)
    await share(it, await uuid_of(it, "v"), uuid, "can_manage", token=u)
    assert await status(it, "PUT", f"collections/{uuid}", {"name": "n"}, token=v) == 200
    mine = {"owner_uuid": await uuid_of(it, "v")}
    assert await status(it, "PUT", f"collections/{uuid}", mine, token=v) == 403


@pytest.mark.parametrize(
    "owner", ["nonsense", "zzzzz-4zz18-000000000000000", "zzzzz-tpzed-000000000000009", 5]
)
async def test_nobody_else_owns(it: World, owner: object) -> None:
    reply = await it.request("POST", "workflows", {"owner_uuid": owner})
    assert (reply.status, "owner_uuid" in reply.error) == (422, True)


async def test_roles_and_filter_groups_own_nothing(it: World) -> None:
    role = await group(it, "r", group_class="role")
    filters = await group(it, "f", group_class="filter", properties={"filters": []})
    for one in (role, filters):
        reply = await it.request("POST", "collections", {"owner_uuid": one["uuid"]})
        assert (reply.status, "cannot own anything" in reply.error) == (422, True)


async def test_home_of_a_managed_user(it: World) -> None:
    u, v = await it.user("u"), await it.user("v")
    theirs = await it.ok("POST", "workflows", {"name": "w"}, token=v)
    await share(it, await uuid_of(it, "u"), await uuid_of(it, "v"), "can_manage")
    assert await status(it, "GET", f"workflows/{theirs['uuid']}", token=u) == 200
    assert (
        await status(it, "POST", "workflows", {"owner_uuid": await uuid_of(it, "v")}, token=u)
        == 200
    )
    tokens = (await it.ok("GET", "api_client_authorizations", token=u))["items"]
    assert {one["owner_uuid"] for one in tokens} == {await uuid_of(it, "u")}
    foreign = (await it.ok("GET", "api_client_authorizations", token=v))["items"][0]["uuid"]
    assert await status(it, "GET", f"api_client_authorizations/{foreign}", token=u) == 404
    assert (
        await status(
            it, "POST", "api_client_authorizations", {"owner_uuid": await uuid_of(it, "v")}, token=u
        )
        == 403
    )


async def test_tokens_are_made_for_users(it: World) -> None:
    project = await group(it, "p")
    assert (
        await status(it, "POST", "api_client_authorizations", {"owner_uuid": project["uuid"]})
        == 422
    )


async def test_trash_hides_what_is_in_a_project(it: World) -> None:
    uuid, u, v = await shared_collection(it, "can_read")
    owner = (await it.ok("GET", f"collections/{uuid}"))["owner_uuid"]
    await it.ok("DELETE", f"groups/{owner}", token=u)
    for token in (u, v, None):
        assert await status(it, "GET", f"collections/{uuid}", token=token) == 404
        assert await status(it, "PUT", f"collections/{uuid}", {"name": "n"}, token=token) == 404
        found = await it.request(
            "GET", f"collections/{uuid}", token=token, params={"include_trash": True}
        )
        assert found.status == 200
    pdh = found.json["portable_data_hash"]
    assert await status(it, "GET", f"collections/{pdh}") == 404
    await it.ok("POST", f"groups/{owner}/untrash", token=u)
    assert await status(it, "GET", f"collections/{uuid}", token=v) == 200


async def test_trash_in_the_future(it: World) -> None:
    project = await group(it, "p", trash_at="2026-01-03T00:00:00Z")
    path = f"groups/{project['uuid']}"
    assert (await it.ok("GET", path))["is_trashed"] is False
    it.clock.advance(2 * 86400)
    assert await status(it, "GET", path) == 404


async def test_nothing_is_written_in_a_frozen_project(it: World) -> None:
    uuid, u, v = await shared_collection(it, "can_manage")
    project = (await it.ok("GET", f"collections/{uuid}"))["owner_uuid"]
    inner = await group(it, "inner", token=u, owner_uuid=project)
    freeze = {"frozen_by_uuid": await uuid_of(it, "u")}
    await it.ok("PUT", f"groups/{project}", freeze, token=u)
    for token in (u, v, None):
        for method, path, body in (
            ("PUT", f"collections/{uuid}", {"name": "n"}),
            ("DELETE", f"collections/{uuid}", None),
            ("POST", "collections", {"owner_uuid": inner["uuid"]}),
            ("PUT", f"groups/{inner['uuid']}", {"name": "n"}),
            ("PUT", f"groups/{project}", {"name": "n"}),
            ("DELETE", f"groups/{project}", None),
        ):
            reply = await it.request(method, path, body, token=token)
            assert (reply.status, "frozen" in reply.error) == (403, True)
    await it.ok("PUT", f"groups/{project}", {"frozen_by_uuid": None}, token=v)
    assert await status(it, "PUT", f"collections/{uuid}", {"name": "n"}, token=v) == 200


async def test_frozen_and_trashed_is_for_admins(it: World) -> None:
    u = await it.user("u")
    outer = await group(it, "outer", token=u)
    inner = await group(it, "inner", token=u, owner_uuid=outer["uuid"])
    made = await it.ok("POST", "workflows", {"owner_uuid": inner["uuid"]}, token=u)
    freeze = {"frozen_by_uuid": await uuid_of(it, "u")}
    await it.ok("PUT", f"groups/{outer['uuid']}", {"trash_at": "2026-01-05T00:00:00Z"}, token=u)
    await it.ok("PUT", f"groups/{inner['uuid']}", freeze, token=u)
    it.clock.advance(5 * 86400)
    trash: Record = {"include_trash": True}
    for path in (f"groups/{inner['uuid']}", f"workflows/{made['uuid']}"):
        assert (await it.request("GET", path, token=u, params=trash)).status == 404
        assert (await it.request("GET", path, params=trash)).status == 200
    listed = await it.ok("GET", "workflows", token=u, params=trash)
    assert listed["items"] == []

"""What groups hold, and what was shared."""

from __future__ import annotations

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, status, uuid_of


async def contents(
    it: World, path: str = "groups/contents", *, token: str | None = None, **params: JSON
) -> Record:
    found: Record = await it.ok("GET", path, token=token, params=params)
    return found


def named(found: Record) -> list[str]:
    return [one["name"] for one in found["items"]]


async def filled(it: World, token: str) -> Record:
    """A project of one of each, with a project in it that holds another collection."""
    project = await group(it, "p", token=token)
    own = {"owner_uuid": project["uuid"]}
    inner = await group(it, "inner", token=token, **own)
    await it.submit(token=token, name="request", **own)
    await it.ok("POST", "workflows", {"name": "workflow", **own}, token=token)
    await it.collection({"a": b"x"}, token=token, name="collection", properties={"a": 1}, **own)
    await it.collection({"b": b"y"}, token=token, name="deep", owner_uuid=inner["uuid"])
    return project


async def test_kinds_come_in_order(it: World) -> None:
    token = await it.user("u")
    project = await filled(it, token)
    found = await contents(it, f"groups/{project['uuid']}/contents", token=token)
    assert found["kind"] == "arvados#objectList"
    assert named(found) == ["inner", "request", "workflow", "collection"]
    assert (found["items_available"], found["included"]) == (4, [])
    assert "manifest_text" not in found["items"][3]
    same = await contents(
        it, token=token, uuid=project["uuid"], select=["name", "manifest_text", "group_class"]
    )
    assert named(same) == named(found)
    assert same["items"][3].keys() == {"name", "kind", "etag", "uuid"}
    deep = await contents(
        it, f"groups/{project['uuid']}/contents", token=token, recursive=True, order="name"
    )
    assert named(deep) == ["inner", "request", "workflow", "collection", "deep"]


async def test_pages_cross_kinds(it: World) -> None:
    token = await it.user("u")
    path = f"groups/{(await filled(it, token))['uuid']}/contents"
    whole = named(await contents(it, path, token=token))
    for size in (1, 2, 3):
        pages = [
            await contents(it, path, token=token, limit=size, offset=start)
            for start in range(0, 5, size)
        ]
        assert [name for page in pages for name in named(page)] == whole
        assert {page["items_available"] for page in pages} == {4}
        bare = await contents(it, path, token=token, limit=size, offset=1, count="none")
        assert (named(bare), "items_available" in bare) == (whole[1 : 1 + size], False)
    assert (await contents(it, path, token=token, limit=0))["items_available"] == 4


async def test_paging_by_uuid_meets_everything(it: World) -> None:
    token = await it.user("u")
    path = f"groups/{(await filled(it, token))['uuid']}/contents"
    seen: list[str] = []
    filters: list[JSON] = []
    while page := (
        await contents(it, path, token=token, order="uuid", limit=2, filters=filters, count="none")
    )["items"]:
        seen += [one["uuid"] for one in page]
        filters = [["uuid", ">", seen[-1]]]
    assert seen == sorted(seen)
    assert len(seen) == 4


async def test_filters(it: World) -> None:
    token = await it.user("u")
    path = f"groups/{(await filled(it, token))['uuid']}/contents"
    for filters, expected in (
        ([["uuid", "is_a", "arvados#collection"]], ["collection"]),
        ([["uuid", "is_a", ["arvados#group", "arvados#workflow"]]], ["inner", "workflow"]),
        ([["uuid", "is_a", "arvados#group"], ["groups.group_class", "in", ["filter"]]], []),
        ([["collections.properties.a", "=", 2]], ["inner", "request", "workflow"]),
        ([["name", "like", "%o%"]], ["workflow", "collection"]),
        ([["uuid", "is_a", "arvados#user"]], []),
    ):
        assert named(await contents(it, path, token=token, filters=filters)) == expected


async def test_filter_groups_show_what_matches(it: World) -> None:
    token = await it.user("u")
    await filled(it, token)
    filters = [["uuid", "is_a", "arvados#collection"], ["collections.name", "like", "%e%"]]
    made = await group(it, "f", token=token, group_class="filter", properties={"filters": filters})
    path = f"groups/{made['uuid']}/contents"
    assert named(await contents(it, path, token=token, order="name")) == [
        "collection",
        "deep",
        "empty collection",
    ]
    assert named(await contents(it, path, token=token, filters=[["name", "=", "deep"]])) == ["deep"]
    await share(it, await uuid_of(it, "v"), made["uuid"], "can_read", token=token)
    assert named(await contents(it, path, token=await it.user("v"))) == ["empty collection"]


async def test_without_a_uuid_everything_readable(it: World) -> None:
    token = await it.user("u")
    await filled(it, token)
    await it.collection({"c": b"z"}, token=token, name="home")
    mine = await contents(it, token=token)
    assert {"home", "deep", "p"} <= set(named(mine))
    away = named(await contents(it, token=token, exclude_home_project=True))
    assert "deep" in away
    assert not {"home", "p"} & set(away)
    home = await contents(it, token=token, uuid=await uuid_of(it, "u"))
    assert set(named(home)) == {"p", "home", ""}


async def test_include(it: World) -> None:
    token = await it.user("u")
    project = await filled(it, token)
    found = await contents(
        it,
        f"groups/{project['uuid']}/contents",
        token=token,
        include="owner_uuid,container_uuid",
        limit=2,
    )
    assert {one["kind"] for one in found["included"]} == {"arvados#group", "arvados#container"}


async def test_trash_is_left_out(it: World) -> None:
    token = await it.user("u")
    project = await filled(it, token)
    path = f"groups/{project['uuid']}/contents"
    for one in (
        await contents(it, path, token=token, filters=[["uuid", "is_a", "arvados#collection"]])
    )["items"]:
        await it.ok("DELETE", f"collections/{one['uuid']}", token=token)
    assert named(await contents(it, path, token=token)) == ["inner", "request", "workflow"]
    assert "collection" in named(await contents(it, path, token=token, include_trash=True))
    await it.ok("DELETE", f"groups/{project['uuid']}", token=token)
    assert (await it.request("GET", path, token=token)).status == 404
    assert len((await contents(it, path, token=token, include_trash=True))["items"]) == 4


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"uuid": "zzzzz-j7d0g-000000000000009"}, 404),
        ({"uuid": "zzzzz-4zz18-000000000000000"}, 404),
        ({"uuid": "nonsense"}, 404),
        ({"uuid": "zzzzz-j7d0g-fffffffffffffff", "exclude_home_project": True}, 422),
        ({"include": "head_uuid"}, 422),
        ({"include": 5}, 422),
        ({"include": [["owner_uuid"]]}, 422),
        ({"filters": [["nope", "=", 1]]}, 422),
        ({"count": "x"}, 422),
    ],
)
async def test_faults(it: World, params: Record, expected: int) -> None:
    assert (await it.request("GET", "groups/contents", params=params)).status == expected


async def test_shared(it: World) -> None:
    u, v = await it.user("u"), await it.user("v")
    assert (
        await contents(
            it, "groups/shared", token=v, filters=[["owner_uuid", "=", await uuid_of(it, "u")]]
        )
    )["items"] == []
    project = await filled(it, u)
    await share(it, await uuid_of(it, "v"), project["uuid"], "can_read", token=u)
    await group(it, "mine", token=v)
    wanted = [["name", "in", ["p", "inner", "mine"]]]
    found = await contents(
        it, "groups/shared", token=v, order="uuid", include="owner_uuid", filters=wanted
    )
    assert named(found) == ["p"]
    assert [one["uuid"] for one in found["included"]] == [await uuid_of(it, "u")]
    assert found["included"][0].keys() <= {"uuid", "email", "username", "first_name", "last_name",
        "kind", "is_active", "is_admin", "is_invited", "can_write", "can_manage"}  # fmt: skip
    rest = [["uuid", ">", found["items"][-1]["uuid"]], *wanted]
    last = await contents(
        it, "groups/shared", token=v, order="uuid", filters=rest, count="none", limit=0
    )
    assert (last["items"], last["included"], "items_available" in last) == ([], [], False)
    assert "p" in named(await contents(it, "groups/shared"))


async def test_an_inner_project_is_shared_if_the_outer_is_not(it: World) -> None:
    u, v = await it.user("u"), await it.user("v")
    project = await filled(it, u)
    path = f"groups/{project['uuid']}/contents"
    inner = (await contents(it, path, token=u))["items"][0]
    await share(it, await uuid_of(it, "v"), inner["uuid"], "can_read", token=u)
    found = await contents(it, "groups/shared", token=v, filters=[["group_class", "=", "project"]])
    assert "inner" in named(found)
    assert await status(it, "GET", path, token=v) == 404
    assert named(await contents(it, f"groups/{inner['uuid']}/contents", token=v)) == ["deep"]


async def test_containers_and_collections_are_included(it: World) -> None:
    token = await it.user("u")
    path = f"groups/{(await filled(it, token))['uuid']}/contents"
    asked = ["uuid", "name", "containers.state", "containers.exit_code", "container_uuid"]
    found = await contents(it, path, token=token, include=["container_uuid"], select=asked)
    assert [one["state"] for one in found["included"]] == ["Queued"]
    assert found["included"][0].keys() == {"uuid", "kind", "etag", "state", "exit_code"}
    request = next(one for one in found["items"] if one["name"] == "request")
    assert request["container_uuid"] == found["included"][0]["uuid"]
    whole = await contents(it, path, token=token, include="container_uuid")
    assert whole["included"][0]["runtime_constraints"]["vcpus"] == 1
    assert (await contents(it, path, token=token, include=["collection_uuid"]))["included"] == []
    reply = await it.request("GET", path, params={"select": ["exit_code"]}, token=token)
    assert (reply.status, "'exit_code' in select" in reply.error) == (422, True)

"""The nearest earlier container is one that the caller can read."""

from __future__ import annotations

from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, uuid_of

SECRET = "hunter2-of-admin"


async def _near(it: World, token: str) -> tuple[Record | None, list[Record], str]:
    """The nearest container, the near ones and the whole text of a preview and of `why`."""
    spec = await it.spec("echo", "mine", token=token)
    shown = await it.request("POST", "container_requests/preview", spec, token=token)
    request = await it.submit("echo", "mine", token=token)
    why = await it.request("GET", f"container_requests/{request['uuid']}/why", token=token)
    assert (shown.status, why.status) == (200, 200), (shown.body, why.body)
    said = why.json["decision"]
    assert {"nearest": shown.json["nearest"], "near": shown.json["near"]} == {
        name: said[name] for name in ("nearest", "near")
    }
    return said["nearest"], said["near"], (shown.body + why.body).decode()


async def test_containers_of_others_are_not_near(it: World) -> None:
    user = await it.user("stranger")
    theirs = await it.submit("echo", SECRET, environment={"DB_PASSWORD": SECRET})
    await it.run(theirs["container_uuid"])
    # The same content is the same image, whoever stored it.
    nearest, near, shown = await _near(it, user)
    assert (nearest, near) == (None, [])
    assert SECRET not in shown
    assert theirs["container_uuid"] not in shown


async def test_containers_of_others_with_another_image_are_not_near(it: World) -> None:
    user = await it.user("stranger")
    other = await it.collection({f"sha256:{'1' * 64}.tar": b"another image"})
    theirs = await it.submit(
        "echo",
        environment={"DB_PASSWORD": SECRET},
        container_image=other["portable_data_hash"],
    )
    nearest, near, shown = await _near(it, user)
    assert (nearest, near) == (None, [])
    assert SECRET not in shown
    assert theirs["container_uuid"] not in shown


async def test_ones_own_and_shared_containers_are_near(it: World) -> None:
    user = await it.user("reader")
    own = await it.submit("echo", "before", token=user)
    project = await group(it, "shared")
    await share(it, await uuid_of(it, "reader"), project["uuid"], "can_read")
    shared = await it.submit("echo", "shared", owner_uuid=project["uuid"])
    await it.submit("echo", "hidden")
    _, near, _ = await _near(it, user)
    assert {one["container_uuid"] for one in near} == {
        own["container_uuid"],
        shared["container_uuid"],
    }


async def test_containers_that_a_further_token_reads_are_near(it: World) -> None:
    user = await it.user("reader")
    theirs = await it.submit("echo", "theirs")
    request = await it.submit("echo", "mine", token=user)
    params: dict[str, JSON] = {"reader_tokens": f'["{it.admin}"]'}
    path = f"container_requests/{request['uuid']}/why"
    why = await it.ok("GET", path, token=user, params=params)
    assert why["decision"]["nearest"]["container_uuid"] == theirs["container_uuid"]


async def test_ones_own_container_with_another_image_is_near(it: World) -> None:
    user = await it.user("reader")
    other = await it.collection({f"sha256:{'1' * 64}.tar": b"another image"}, token=user)
    own = await it.submit("echo", token=user, container_image=other["portable_data_hash"])
    nearest, _, _ = await _near(it, user)
    assert nearest is not None
    assert nearest["container_uuid"] == own["container_uuid"]


async def test_a_token_that_may_not_list_containers_is_told_of_none(it: World) -> None:
    await it.submit("echo", environment={"DB_PASSWORD": SECRET})
    request = await it.submit("echo", "mine")
    path = f"container_requests/{request['uuid']}/why"
    limited = await it.ok(
        "POST", "api_client_authorizations", {"scopes": [f"GET /arvados/v1/{path}"]}
    )
    token = f"v2/{limited['uuid']}/{limited['api_token']}"
    why = await it.ok("GET", path, token=token)
    assert (why["decision"]["nearest"], why["decision"]["near"]) == (None, [])
    assert (await it.ok("GET", path))["decision"]["nearest"] is not None


async def test_a_preview_mounts_the_outputs_of_readable_requests(it: World) -> None:
    user = await it.user("stranger")
    theirs = await it.submit("echo", "theirs")
    await it.run(theirs["container_uuid"])
    # The stranger has the same content.
    await it.collection({"out.txt": b"output"}, token=user)
    mounts: JSON = {
        "/out": {"kind": "tmp", "capacity": 1000},
        "/in": {"kind": "output", "container_request": theirs["uuid"]},
    }
    spec = await it.spec("echo", token=user, mounts=mounts)
    for path in ("container_requests/preview", "container_requests"):
        refused = await it.request("POST", path, spec, token=user)
        assert (refused.status, "not found" in refused.error) == (422, True)

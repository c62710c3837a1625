"""Who gets into a running container, by a session or by a port, through the whole API: attacks by
other users, invitations, and what a session does to the requests of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.api.events import timers
from lading.api.server.upkeep import ENTRANCE_CHECKS
from lading.core.records import access
from lading.testing.world import WITH_API, World, world
from tests.api.container_access.test_shell_sessions import PATIENCE, Caller, call, entered, running

PROBE = {"probe": "true"}


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


async def uuid_of(it: World, token: str) -> str:
    return str((await it.ok("GET", "users/current", token=token))["uuid"])


async def give(it: World, head: str, token: str, name: str = "can_manage") -> None:
    """Give the user of a token a permission on a record, as the admin."""
    link = {"link_class": "permission", "name": name, "head_uuid": head}
    await it.ok("POST", "links", {**link, "tail_uuid": await uuid_of(it, token)})


async def let_in(it: World, head: str, token: str, *, by: str, **more: Any) -> Any:
    """The answer to letting the user of a token into a container."""
    link = {"link_class": "container_access", "name": "can_enter", "head_uuid": head,
            "tail_uuid": await uuid_of(it, token), **more}  # fmt: skip
    return await it.request("POST", "links", link, token=by)


async def enters(it: World, uuid: str, token: str) -> int:
    """Status of a probe for a session; 503 is that of an allowed one without a gateway."""
    it.app.services.access.tunnels.patience = 0.01
    status, text = await call(it, f"connect/{uuid}/ssh", PROBE, token=token, upgrade="")
    assert status != 503 or "does not answer" in text or "tunnel" in text, text
    return {503: 200}.get(status, status)


async def reaches(it: World, uuid: str, token: str, port: int = 8000) -> int:
    """Status of a GET of a port; 503 is that of an allowed one without a gateway."""
    it.app.services.access.tunnels.patience = 0.01
    reply = await it.request("GET", f"/services/{uuid}-{port}/", token=token)
    return {503: 200}.get(reply.status, reply.status)


async def test_a_writer_of_a_project_does_not_become_the_user_of_its_containers(
    it: World,
) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    project = await it.ok("POST", "groups", {"group_class": "project", "name": "p"}, token=alice)
    await give(it, project["uuid"], bob)
    request = await it.submit(token=alice, owner_uuid=project["uuid"], use_existing=False)
    uuid = request["container_uuid"]
    running_now = {"state": "Running", "gateway_address": "tunnel"}
    await it.ok("PUT", f"containers/{uuid}", running_now, token=await it.lock(uuid))
    renamed = {"name": "mine now", "priority": 2}
    await it.ok("PUT", f"container_requests/{request['uuid']}", renamed, token=bob)
    for name in (uuid, request["uuid"]):
        assert (await enters(it, name, bob), await enters(it, name, alice)) == (403, 200)
        assert (await reaches(it, name, bob), await reaches(it, name, alice)) == (403, 200)


async def test_an_equal_request_that_joins_changes_nothing_about_who_enters(it: World) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    _, uuid, _ = await running(it, "tunnel", token=alice)
    joined = await it.ok(
        "POST",
        "container_requests",
        await it.spec(container_image=it.images[alice]),
        token=it.admin,
    )
    assert joined["container_uuid"] == uuid
    await give(it, joined["uuid"], bob)
    assert (await enters(it, uuid, alice), await enters(it, uuid, bob)) == (200, 403)


async def test_a_session_sends_the_requests_of_others_to_another_container(
    it: World, tmp_path: Path
) -> None:
    alice = await it.user("alice")
    async with entered(it, tmp_path, token=alice) as (request, uuid, _, _):
        spec = await it.spec(container_image=it.images[alice])
        others = await it.ok("POST", "container_requests", spec)
        assert others["container_uuid"] == uuid
        caller = Caller()
        session = asyncio.create_task(caller.call(it, f"connect/{uuid}/ssh", {}, token=alice))
        await asyncio.wait_for(caller.taken.wait(), PATIENCE)
        assert await timers.seek(it.app.services) == 0
        now = await it.ok("GET", f"container_requests/{others['uuid']}")
        assert now["container_uuid"] not in (None, uuid)
        assert now["state"] == "Committed"
        own = await it.ok("GET", f"container_requests/{request}", token=alice)
        assert own["container_uuid"] == uuid
        assert caller.pipe is not None
        await caller.pipe.close()
        await asyncio.wait_for(session, PATIENCE)


async def test_a_session_that_would_end_its_container_is_refused_with_the_reason(
    it: World,
) -> None:
    alice = await it.user("alice")
    request, uuid, _ = await running(it, "tunnel", token=alice)
    spec = await it.spec(container_image=it.images[alice])
    await it.ok("POST", "container_requests", spec)
    await it.ok("PUT", f"container_requests/{request}", {"priority": 0}, token=alice)
    for by in (alice, it.admin):
        for name in (uuid, request):
            status, text = await call(it, f"connect/{name}/ssh", PROBE, token=by, upgrade="")
            assert (status, "runs for those of others" in text) == (409, True)
    await it.ok("PUT", f"container_requests/{request}", {"priority": 1}, token=alice)
    assert await enters(it, uuid, alice) == 200


async def test_a_user_lets_another_one_in_by_name(it: World) -> None:
    alice, bob, carol = [await it.user(name) for name in ("alice", "bob", "carol")]
    request, uuid, _ = await running(it, "tunnel", token=alice)
    for token in (bob, carol):
        await give(it, request, token, "can_read")
    link = (await let_in(it, request, bob, by=alice)).json
    assert (await let_in(it, request, bob, by=alice)).json["uuid"] == link["uuid"]
    assert [await enters(it, uuid, token) for token in (bob, carol)] == [200, 403]
    assert [await reaches(it, uuid, token) for token in (bob, carol)] == [200, 403]
    filters = [["link_class", "=", "container_access"]]
    seen = await it.ok("GET", "links", token=bob, params={"filters": filters})
    assert [one["uuid"] for one in seen["items"]] == [link["uuid"]]
    # Also who is let in may read the container only as long as it is shared.
    assert (await it.request("DELETE", f"links/{link['uuid']}", token=bob)).status == 403
    changed = {"tail_uuid": await uuid_of(it, carol)}
    assert (await it.request("PUT", f"links/{link['uuid']}", changed, token=alice)).status == 422
    await it.ok("PUT", f"links/{link['uuid']}", link, token=alice)
    await it.ok("DELETE", f"links/{link['uuid']}", token=alice)
    assert await enters(it, uuid, bob) == 403


async def test_nobody_but_its_user_lets_others_into_a_container(it: World) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    request, uuid, _ = await running(it, "tunnel", token=alice)
    await give(it, request, bob)
    alices = await uuid_of(it, alice)
    await give(it, alices, bob)
    everybody = f"{it.cluster}-j7d0g-fffffffffffffff"
    for reply in (
        # With each right on the request, and on its user: the link would be the forger's.
        await let_in(it, uuid, it.admin, by=bob), await let_in(it, request, it.admin, by=bob),
        await let_in(it, request, bob, by=it.admin),
        await let_in(it, request, bob, by=it.admin, owner_uuid=alices),
        await let_in(it, request, it.admin, by=bob, owner_uuid=alices),
    ):  # fmt: skip
        assert (reply.status, "Forbidden" in reply.error) == (403, True)
    for more, fault in (
        ({"name": "x"}, "name"), ({"tail_uuid": everybody}, "tail_uuid"),
        ({"tail_uuid": alices}, "tail_uuid"), ({"head_uuid": alices}, "head_uuid"),
        ({"tail_uuid": f"{it.cluster}-tpzed-{'9' * 15}"}, "not found"),
    ):  # fmt: skip
        reply = await let_in(it, request, bob, **{"by": alice, **more})
        assert (reply.status, fault in reply.error) == (422, True)
    # An ordinary link does not turn into one.
    link = {"link_class": "tag", "name": "can_enter", "head_uuid": request, "tail_uuid": alices}
    made = await it.ok("POST", "links", link, token=bob)
    turned = {"link_class": "container_access"}
    assert (await it.request("PUT", f"links/{made['uuid']}", turned, token=bob)).status == 422
    assert await enters(it, uuid, bob) == 403


async def test_a_request_that_still_waits_for_its_container_can_be_opened_to_others(
    it: World,
) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    first = await it.submit(token=alice, use_existing=False)
    mount = {"/out": {"kind": "tmp", "capacity": 1000},
             "/in": {"kind": "output", "container_request": first["uuid"]}}  # fmt: skip
    waiting = await it.submit(token=alice, mounts=mount)
    assert waiting["container_uuid"] is None
    await give(it, waiting["uuid"], bob)
    assert (await let_in(it, waiting["uuid"], it.admin, by=bob)).status == 403
    assert (await let_in(it, waiting["uuid"], bob, by=alice)).status == 200


@pytest.mark.parametrize("rights", ["API", "secrets"])
async def test_what_has_rights_of_its_user_inside_is_entered_by_its_user_alone(
    it: World, rights: str
) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    secret = {"/key": {"kind": "text", "content": "s3cret"}}
    more: Any = {"API": {"runtime_constraints": WITH_API}, "secrets": {"secret_mounts": secret}}
    request = await it.submit(
        token=alice, published_ports={"8000": published("private")}, **more[rights]
    )
    uuid = request["container_uuid"]
    running_now = {"state": "Running", "gateway_address": "tunnel"}
    await it.ok("PUT", f"containers/{uuid}", running_now, token=await it.lock(uuid))
    await give(it, request["uuid"], bob)
    assert (await let_in(it, uuid, bob, by=alice)).status == 200
    assert [await enters(it, uuid, one) for one in (alice, bob, it.admin)] == [200, 403, 403]
    # A port that the command serves on purpose is for guests, its other ports are not.
    assert [await reaches(it, uuid, one) for one in (alice, bob, it.admin)] == [200, 200, 403]
    assert [await reaches(it, uuid, one, 8001) for one in (alice, bob)] == [200, 403]


def published(access: str) -> dict[str, str]:
    return {"access": access, "label": "web", "initial_path": ""}


async def test_admins_enter_where_the_site_says_so(tmp_path: Path) -> None:
    for admin, status in ((True, 200), (False, 403)):
        root = tmp_path / str(admin)
        root.mkdir()
        async with world(root, Containers={"ShellAccess": {"Admin": admin}}) as it:
            _, uuid, _ = await running(it, "tunnel", token=await it.user("alice"))
            assert await enters(it, uuid, it.admin) == status
            assert await reaches(it, uuid, it.admin) == status


async def test_tokens_that_run_containers_open_no_session(it: World) -> None:
    """Of a dispatcher, of Arvados' crunch-run, of the holder, of a supervisor, of a container."""
    request, uuid, supervisor = await running(it, "tunnel")
    scoped = []
    for scopes in (access.DISPATCHER_SCOPES, access.ARVADOS_DISPATCHER_SCOPES,
                   ("POST /arvados/v1/containers/",)):  # fmt: skip
        made = await it.ok("POST", "api_client_authorizations", {"scopes": list(scopes)})
        scoped.append(f"v2/{made['uuid']}/{made['api_token']}")
    own = await it.container_token(uuid)
    for token in (it.dispatcher, *scoped, supervisor, own):
        for path in (f"containers/{uuid}/ssh", f"connect/{uuid}/ssh", f"connect/{request}/ssh"):
            assert (await call(it, path, PROBE, token=token, upgrade=""))[0] in (403, 404), token
        assert await reaches(it, uuid, token) in (403, 404) or token == own
    with_api = await it.submit(runtime_constraints=WITH_API, use_existing=False)
    child = with_api["container_uuid"]
    await it.ok("PUT", f"containers/{child}", {"state": "Running"}, token=await it.lock(child))
    token = await it.container_token(child)
    assert await enters(it, uuid, token) == 403
    bob = await it.user("bob")
    assert (await let_in(it, request, bob, by=token)).status == 403


async def test_the_holder_of_a_container_opens_no_session_in_it(it: World) -> None:
    request = await it.submit(use_existing=False)
    uuid = request["container_uuid"]
    locked = await it.ok("POST", f"containers/{uuid}/lock")
    changes = {"state": "Running", "gateway_address": "tunnel"}
    await it.ok("PUT", f"containers/{uuid}", changes, token=locked["supervisor_token"])
    assert await enters(it, uuid, it.admin) == 403
    assert await reaches(it, uuid, it.admin) == 403


@pytest.mark.parametrize("ending", ["link", "account", "token", "share"])
async def test_a_guest_is_cut_off_with_the_end_of_what_let_the_guest_in(
    it: World, tmp_path: Path, ending: str
) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    async with entered(it, tmp_path, token=alice) as (request, uuid, _, _):
        read = {"link_class": "permission", "name": "can_read", "head_uuid": request}
        bobs = await uuid_of(it, bob)
        share = await it.ok("POST", "links", {**read, "tail_uuid": bobs})
        link = (await let_in(it, uuid, bob, by=alice)).json
        it.app.services.features[ENTRANCE_CHECKS].interval = 0.01
        caller = Caller()
        session = asyncio.create_task(caller.call(it, f"connect/{uuid}/ssh", {}, token=bob))
        await asyncio.wait_for(caller.taken.wait(), PATIENCE)
        assert caller.pipe is not None
        await caller.pipe.reader.readuntil(b"\n")
        assert not session.done()
        match ending:
            case "link":
                await it.ok("DELETE", f"links/{link['uuid']}", token=alice)
            case "share":
                await it.ok("DELETE", f"links/{share['uuid']}", token=alice)
            case "account":
                await it.ok("PUT", f"users/{bobs}", {"is_active": False})
            case "token":
                token = bob.split("/")[1]
                await it.ok("DELETE", f"api_client_authorizations/{token}")
        await asyncio.wait_for(session, PATIENCE)
        await caller.pipe.close()

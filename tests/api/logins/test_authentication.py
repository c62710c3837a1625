"""Every form of token, and tokens that have ended."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from lading.api.logins.authentication import authenticate, find_token
from lading.core.records.record_types import RECORDS
from lading.testing.world import World, world


def test_where_tokens_are_found() -> None:
    basic = base64.b64encode(b"user:secret").decode()
    assert find_token({"authorization": "Bearer  x"}, {}) == "x"
    assert find_token({"authorization": "OAuth2 x"}, {}) == "x"
    assert find_token({"authorization": f"Basic {basic}"}, {}) == "secret"
    assert find_token({"authorization": "Basic %%%"}, {}) == ""
    assert find_token({}, {"api_token": "x"}) == "x"
    assert find_token({}, {"oauth_token": "x"}) == "x"
    assert find_token({}, {"api_token": ["x"]}) == ""


async def test_forms(it: World) -> None:
    bare = it.admin.split("/")[2]
    for token in (it.admin, bare):
        assert (await it.ok("GET", "users/current", token=token))["username"] == "admin"
    for token in ("s" * 50, f"v2/zzzzz-gj3su-000000000000000/{'s' * 50}"):
        user = await it.ok("GET", "users/current", token=token)
        assert user["uuid"] == "zzzzz-tpzed-000000000000000"
    assert await authenticate(it.app.services, "") is None


async def test_tokens_end(it: World) -> None:
    token = await it.ok("POST", "api_client_authorizations", {"expires_at": "2026-01-02T03:05:00Z"})
    assert (await it.request("GET", "users/current", token=token["api_token"])).status == 200
    it.clock.advance(120)
    assert (await it.request("GET", "users/current", token=token["api_token"])).status == 401


@pytest.mark.parametrize("container", ["zzzzz-dz642-000000000000000", ""])
async def test_the_fourth_part_must_be_right(it: World, container: str) -> None:
    uuid = (await it.submit())["container_uuid"]
    await it.lock(uuid)
    token = await it.container_token(uuid)
    assert (await it.ok("GET", "containers/current", token=f"{token}/{uuid}"))["uuid"] == uuid
    assert (await it.request("GET", "users/current", token=f"{token}/{container}")).status == 401


async def derived(it: World, *, api: bool = True) -> tuple[str, str, str, str]:
    """A running container whose request brought a token: its uuid, that token, its own token, and
    the token of its supervisor.
    """
    token = await it.user("someone")
    await it.ensure_image(token)
    request = await it.submit(
        runtime_token=token, runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": api}
    )
    assert "runtime_token" not in request
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    own = f"{await it.container_token(uuid)}/{uuid}"
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    return uuid, token, own, supervisor


@pytest.mark.parametrize("api", [False, True])
async def test_a_runtime_token_is_not_the_containers_own(it: World, api: bool) -> None:
    """Whoever made the request knows it, and would forge the result of all who share it."""
    uuid, token, own, _ = await derived(it, api=api)
    forged = await it.collection({"a": b"x"}, token=token)
    before = await it.ok("GET", f"containers/{uuid}")
    for known, statuses in ((token, (403, 404)), (f"{token}/{uuid}", (401,))):
        for body in (
            {"output": forged["portable_data_hash"]},
            {"state": "Complete", "exit_code": 0},
            {"progress": 0.5},
        ):
            reply = await it.request("PUT", f"containers/{uuid}", body, token=known)
            assert reply.status in statuses, (known, body)
        for method, action in (("POST", "progress"), ("GET", "secret_mounts"), ("GET", "auth")):
            reply = await it.request(
                method, f"containers/{uuid}/{action}", {"progress": 0.5}, token=known
            )
            assert reply.status in statuses, (known, action)
        assert (await it.request("GET", "containers/current", token=known)).status in (401, 404)
    assert await it.ok("GET", f"containers/{uuid}") == before
    assert token.split("/")[1:3] != own.split("/")[1:3]
    assert before["auth_uuid"] == own.split("/")[1]


async def test_a_container_acts_as_the_user_of_its_runtime_token(it: World) -> None:
    uuid, token, own, _ = await derived(it)
    user = (await it.ok("GET", "users/current", token=token))["uuid"]
    current = await it.ok("GET", "containers/current", token=own)
    assert (current["uuid"], current["runtime_user_uuid"]) == (uuid, user)
    assert (await it.ok("GET", "users/current", token=own))["uuid"] == user
    private = await it.collection({"a": b"x"}, token=token)
    assert (await it.ok("GET", f"collections/{private['uuid']}", token=own))["owner_uuid"] == user
    await it.ok("PUT", f"containers/{uuid}", {"progress": 0.5}, token=own)
    # A workflow passes it on to a step.
    step = await it.submit("step", token=own, runtime_token=own)
    assert step["requesting_container_uuid"] == uuid
    await it.lock(step["container_uuid"])
    below = f"{await it.container_token(step['container_uuid'])}/{step['container_uuid']}"
    assert (await it.ok("GET", "users/current", token=below))["uuid"] == user


async def test_a_containers_token_ends_with_the_runtime_token(it: World) -> None:
    uuid, token, own, supervisor = await derived(it)
    step = await it.submit("step", token=own, runtime_token=own)
    await it.lock(step["container_uuid"])
    below = await it.container_token(step["container_uuid"])
    await it.ok("DELETE", f"api_client_authorizations/{token.split('/')[1]}", token=token)
    for ended in (own, below):
        reply = await it.request("GET", "users/current", token=ended)
        assert (reply.status, "runtime token of the container has ended" in reply.error) == (
            401,
            True,
        )
    await it.ok("PUT", f"containers/{uuid}", {"state": "Cancelled"}, token=supervisor)


async def test_a_runtime_token_must_be_alive(it: World) -> None:
    image = {"runtime_token": "v2/zzzzz-gj3su-000000000000009/nope"}
    for token in (image, {"runtime_token": "nonsense"}):
        reply = await it.request("POST", "container_requests", await it.spec(**token))
        assert (reply.status, "Runtime token failed validation" in reply.error) == (422, True)


async def test_a_runtime_token_is_unreadable_at_rest(it: World) -> None:
    token = await it.user("someone")
    secret = token.split("/")[2]
    await it.ensure_image(token)
    made = await it.submit(runtime_token=token)
    draft = await it.submit("draft", state="Uncommitted", runtime_token=token)
    uuid = made["container_uuid"]
    await it.lock(uuid)
    assert (await it.request("GET", "users/current", token=f"{token}x/{uuid}")).status == 401
    await it.ok("PUT", f"container_requests/{draft['uuid']}", {"name": "changed"})
    await it.ok("DELETE", f"container_requests/{draft['uuid']}")
    rows = (await it.ok("GET", "logs", params={"limit": 1000}))["items"]
    assert secret not in str(rows)
    if it.database.shared:
        async with it.database.reading() as tx:
            tables = [
                await tx.fetch(f"SELECT * FROM {one.plural}") for one in RECORDS if one.stored
            ]
        stored = [repr(tables).encode()]
    else:
        stored = [
            path.read_bytes() for path in it.root.iterdir() if path.name.startswith("db.sqlite")
        ]
        assert len(stored) > 1
    assert not any(secret.encode() in one for one in stored)


async def test_the_anonymous_user_reads_what_is_shared_with_the_world(tmp_path: Path) -> None:
    async with world(tmp_path, Users={"AnonymousUserToken": "n" * 50}) as it:
        made = await it.ok("POST", "collections", {"name": "n"})
        path = f"collections/{made['uuid']}"
        for token in ("", "n" * 50):
            assert (await it.request("GET", path, token=token)).status == 404
        everybody = {"tail_uuid": "zzzzz-j7d0g-anonymouspublic", "head_uuid": made["uuid"]}
        await it.ok("POST", "links", {"link_class": "permission", "name": "can_read", **everybody})
        for token in ("", "n" * 50, await it.user("u")):
            assert (await it.request("GET", path, token=token)).status == 200
        assert (await it.request("PUT", path, {"name": "m"}, token="n" * 50)).status == 403
        assert (await it.request("PUT", path, {"name": "m"}, token="")).status == 401
        assert (await it.request("GET", "users/current", token="")).status == 401
        assert (await it.ok("GET", "users/current", token="n" * 50))[
            "uuid"
        ] == "zzzzz-tpzed-anonymouspublic"
        roles = await it.ok(
            "GET", "groups", token="n" * 50, params={"filters": [["group_class", "=", "role"]]}
        )
        assert [one["name"] for one in roles["items"]] == ["Anonymous users"]

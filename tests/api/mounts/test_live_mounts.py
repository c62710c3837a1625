"""Live mounts of requests: directories that the configuration offers to their users."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.testing.world import ApiReply, World, world

ROOTS = {
    "/live": {"Live": True, "Write": True},
    "/read": {"Live": True},
    "/copied": {"Write": True},
    "/live/others": {"Live": True, "Users": ["nobody"]},
}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, TES={"FileRoots": ROOTS}) as made:
        yield made


async def commit(site: World, token: str, **mount: Any) -> ApiReply:
    """The answer to a request with a live mount at /in."""
    spec = await site.spec(token=token)
    spec["mounts"]["/in"] = {"kind": "live", **mount}
    return await site.request("POST", "container_requests", spec, token=token)


async def test_a_root_that_is_offered(site: World) -> None:
    token = await site.user("ann")
    for mount in ({"root": "/live", "path": "a", "writable": True}, {"root": "/read"}):
        reply = await commit(site, token, **mount)
        assert reply.status == 200, reply.error
        container = await site.ok("GET", f"containers/{reply.json['container_uuid']}")
        assert container["mounts"]["/in"] == {"kind": "live", **mount}


async def test_equal_requests_have_containers_of_their_own(site: World) -> None:
    made = [await commit(site, site.admin, root="/read") for _ in range(2)]
    assert made[0].json["container_uuid"] != made[1].json["container_uuid"]


@pytest.mark.parametrize(
    ("mount", "fault"),
    [
        ({"root": "/copied"}, "in no directory that this token may mount live"),
        ({"root": "/"}, "must name a directory that TES.FileRoots offers"),
        ({"root": "/live/a"}, "in no directory"),
        ({"root": "/live", "path": "others/x"}, "in no directory"),
        ({"root": "/live/others"}, "is below no directory that this user may use"),
        ({"root": "/read", "writable": True}, "the directory is for inputs only"),
    ],
)
async def test_what_is_refused(site: World, mount: dict[str, Any], fault: str) -> None:
    reply = await commit(site, await site.user("ann"), **mount)
    assert (reply.status, "Mounts [/in]" in reply.error) == (422, True)
    assert fault in reply.error


async def test_a_token_of_limited_scopes_mounts_nothing_live(site: World) -> None:
    scopes = ["POST /arvados/v1/container_requests"]
    made = await site.ok("POST", "api_client_authorizations", {"scopes": scopes})
    spec = await site.spec()
    spec["mounts"]["/in"] = {"kind": "live", "root": "/read"}
    token = f"v2/{made['uuid']}/{made['api_token']}"
    reply = await site.request("POST", "container_requests", spec, token=token)
    assert reply.status in (403, 422), reply.error

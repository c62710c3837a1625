"""Credentials of one user."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from lading.client.api import ApiClient
from lading.core.tes.locations import parse_location
from lading.tes.transfers.credential_book import CredentialBook
from lading.testing.asgi import AsgiTransport
from tests.tes.site import TaskWorld

BODY = {
    "name": "n",
    "credential_class": "bearer",
    "scopes": ["https://host/"],
    "external_id": "x",
    "secret": "s3cret",
    "expires_at": "2030-01-01T00:00:00Z",
}


async def book(it: TaskWorld, name: str) -> CredentialBook:
    token = await it.world.user(name)
    user = (await it.world.ok("GET", "users/current", token=token))["uuid"]

    @asynccontextmanager
    async def acting() -> AsyncGenerator[ApiClient]:
        yield ApiClient(AsgiTransport(it.world.app), token)

    root = ApiClient(AsgiTransport(it.world.app), it.world.config.SystemRootToken)
    return CredentialBook(root, acting, user=user, clock=it.world.clock)


async def secret(it: TaskWorld, name: str, url: str = "https://host/a") -> str:
    found = await (await book(it, name)).find(parse_location(url))
    assert found is None or "s3cret" not in repr(found)
    return found.secret if found else ""


async def share(it: TaskWorld, uuid: str, name: str, token: str) -> None:
    user = (await it.world.ok("GET", "users/current", token=await it.world.user(name)))["uuid"]
    link = {"link_class": "permission", "name": "can_manage", "tail_uuid": user, "head_uuid": uuid}
    await it.world.ok("POST", "links", link, token=token)


async def test_a_user_has_its_own(it: TaskWorld) -> None:
    token = await it.world.user("ann")
    made = await it.world.ok("POST", "credentials", BODY, token=token)
    assert await secret(it, "ann") == "s3cret"
    assert await secret(it, "ann", "https://other/") == ""
    assert await secret(it, "bob") == ""
    reply = await it.world.request("GET", f"credentials/{made['uuid']}/secret", token=token)
    assert reply.status == 403
    rows = await it.world.ok("GET", "logs", params={"filters": [["event_type", "=",
                                                                 "secret_access"]]})  # fmt: skip
    assert len(rows["items"]) == 1


async def test_what_others_share_does_not_count(it: TaskWorld) -> None:
    token = await it.world.user("mallory")
    made = await it.world.ok("POST", "credentials", BODY, token=token)
    await share(it, made["uuid"], "ann", token)
    assert await secret(it, "ann") == ""


async def test_what_an_admin_shares_counts(it: TaskWorld) -> None:
    made = await it.world.ok("POST", "credentials", BODY)
    await share(it, made["uuid"], "ann", it.world.admin)
    assert await secret(it, "ann") == "s3cret"

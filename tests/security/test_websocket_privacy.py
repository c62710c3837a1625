"""Listeners of the websocket, and what they hear of what is not theirs, or no longer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lading.core.records.schema import Record
from tests.security.serving import Site, serving

pytestmark = pytest.mark.system
REFUSED = 4401


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path / "data") as made:
        yield made


@dataclass
class Listener:
    """A connection that has subscribed to everything."""

    socket: aiohttp.ClientWebSocketResponse
    site: Site
    heard: list[Record] = field(default_factory=list)

    async def hear(self, token: str) -> list[Record]:
        """All events until one of a record that `token` makes now; fewer when the connection is
        closed before.
        """
        marker = await make(self.site, token, name="marker")
        since = len(self.heard)
        while True:
            message = await self.socket.receive(60)
            if message.type is not aiohttp.WSMsgType.TEXT:
                return self.heard[since:]
            event = json.loads(message.data)
            if event.get("object_uuid") == marker["uuid"]:
                return self.heard[since:]
            if "object_uuid" in event:
                self.heard.append(event)


@asynccontextmanager
async def listening(site: Site, token: str, **more: Any) -> AsyncIterator[Listener]:
    url = f"https://{site.address}/websocket?api_token={token}"
    async with site.http.ws_connect(url, ssl=False) as socket:
        await socket.send_json({"method": "subscribe", "filters": [], **more})
        assert (await socket.receive_json(timeout=60)) == {"status": 200}
        yield Listener(socket, site)


async def call(site: Site, method: str, path: str, token: str, **given: Any) -> Record:
    reply = await site.call(method, f"/arvados/v1/{path}", token=token, json=given or None)
    assert reply.status == 200, reply.text
    found: Record = json.loads(reply.text)
    return found


async def make(site: Site, token: str, **given: Any) -> Record:
    return await call(site, "POST", "collections?ensure_unique_name=true", token, **given)


async def me(site: Site, token: str) -> str:
    return str((await call(site, "GET", "users/current", token))["uuid"])


async def share(site: Site, owner: str, head: str, reader: str, name: str = "can_read") -> Record:
    given = {
        "link_class": "permission",
        "name": name,
        "tail_uuid": await me(site, reader),
        "head_uuid": head,
    }
    return await call(site, "POST", "links", owner, **given)


def about(events: list[Record], *uuids: str) -> list[tuple[str, str]]:
    return [
        (one["event_type"], one["object_uuid"]) for one in events if one["object_uuid"] in uuids
    ]


@pytest.mark.attack(
    "a user listens to everything and waits for records of others to be made, changed, "
    "moved and deleted"
)
async def test_records_of_others_are_not_told(site: Site) -> None:
    alice, bob = await site.user("alice"), await site.user("bob")
    async with listening(site, bob) as listener:
        project = await call(
            site, "POST", "groups", alice, name="secret project", group_class="project"
        )
        made = await make(site, alice, name="secret", owner_uuid=project["uuid"])
        await call(site, "PUT", f"collections/{made['uuid']}", alice, name="secret too")
        await call(
            site, "PUT", f"collections/{made['uuid']}", alice, owner_uuid=await me(site, alice)
        )
        await call(site, "DELETE", f"collections/{made['uuid']}", alice)
        tag = await call(
            site,
            "POST",
            "links",
            alice,
            link_class="tag",
            name="secret",
            owner_uuid=project["uuid"],
        )
        await call(site, "DELETE", f"links/{tag['uuid']}", alice)
        await site.request(alice)
        heard = await listener.hear(bob)
    assert "secret" not in str(heard)
    assert about(heard, project["uuid"], made["uuid"], tag["uuid"]) == []
    assert {one["object_kind"] for one in heard} <= {"arvados#user", None}, heard
    async with listening(site, bob, last_log_id=0) as late:
        assert "secret" not in str(await late.hear(bob))


@pytest.mark.attack(
    "a reader of a project hears of what a record was in a private one before it was moved, "
    "or goes on to be"
)
async def test_a_move_does_not_tell_of_the_place_before(site: Site) -> None:
    alice, bob = await site.user("alice"), await site.user("bob")
    private = await call(site, "POST", "groups", alice, name="private", group_class="project")
    shared = await call(site, "POST", "groups", alice, name="shared", group_class="project")
    await share(site, alice, shared["uuid"], bob)
    uuid = (await make(site, alice, name="codename", owner_uuid=private["uuid"]))["uuid"]
    home = (await make(site, alice, name="codename of home"))["uuid"]
    async with listening(site, bob) as listener:
        await call(
            site, "PUT", f"collections/{uuid}", alice, owner_uuid=shared["uuid"], name="public name"
        )
        await call(
            site,
            "PUT",
            f"collections/{home}",
            alice,
            owner_uuid=shared["uuid"],
            name="public name 2",
        )
        heard = await listener.hear(bob)
        assert about(heard, uuid, home) == [("update", uuid), ("update", home)]
        assert "public name" in str(heard)
        for word in ("codename", private["uuid"], await me(site, alice)):
            assert word not in str(
                [one["properties"] for one in heard if one["object_uuid"] in (uuid, home)]
            )
        await call(site, "PUT", f"collections/{uuid}", alice, name="a name in between")
        (event,) = [one for one in await listener.hear(bob) if one["object_uuid"] == uuid]
        assert event["properties"]["old_attributes"]["name"] == "public name"
        await call(
            site,
            "PUT",
            f"collections/{uuid}",
            alice,
            owner_uuid=private["uuid"],
            name="codename again",
        )
        await call(site, "DELETE", f"collections/{uuid}", alice)
        tag = await call(
            site,
            "POST",
            "links",
            alice,
            link_class="tag",
            name="codename",
            owner_uuid=private["uuid"],
        )
        await call(site, "DELETE", f"links/{tag['uuid']}", alice)
        assert about(await listener.hear(bob), uuid, tag["uuid"]) == []
    await call(
        site,
        "PUT",
        f"collections/{home}",
        alice,
        owner_uuid=private["uuid"],
        name="codename once more",
    )
    await call(
        site, "PUT", f"collections/{home}", alice, owner_uuid=shared["uuid"], name="public name 3"
    )
    async with listening(site, bob, last_log_id=0) as late:
        told = [
            one["properties"] for one in await late.hear(bob) if one["object_uuid"] in (uuid, home)
        ]
        assert "public name 3" in str(told)
        assert private["uuid"] not in str(told)
        assert "codename" not in str(told)


@pytest.mark.attack("a user goes on listening after a permission was taken away")
async def test_a_permission_that_was_taken_back(site: Site) -> None:
    alice, bob = await site.user("alice"), await site.user("bob")
    made = (await make(site, alice, name="lent"))["uuid"]
    link = await share(site, alice, made, bob)
    async with listening(site, bob) as listener:
        await call(site, "PUT", f"collections/{made}", alice, name="lent still")
        assert about(await listener.hear(bob), made) == [("update", made)]
        await call(site, "DELETE", f"links/{link['uuid']}", alice)
        await call(site, "PUT", f"collections/{made}", alice, name="secret")
        await call(site, "DELETE", f"collections/{made}", alice)
        heard = await listener.hear(bob)
        assert about(heard, made) == []
        assert "secret" not in str(heard)


@pytest.mark.attack(
    "somebody goes on listening with a token that was taken back, has ended, "
    "or has fewer scopes now"
)
@pytest.mark.parametrize("way", ["deleted", "ended", "time", "scopes"])
async def test_a_token_that_is_none_any_more(site: Site, way: str) -> None:
    bob = await site.user("bob")
    soon = (datetime.now(UTC) + timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    given = {"owner_uuid": await me(site, bob), **({"expires_at": soon} if way == "time" else {})}
    token = await call(site, "POST", "api_client_authorizations", bob, **given)
    secret = f"v2/{token['uuid']}/{token['api_token']}"
    async with listening(site, secret) as listener:
        first = await make(site, bob, name="before")
        assert about(await listener.hear(bob), first["uuid"]) == [("create", first["uuid"])]
        path = f"api_client_authorizations/{token['uuid']}"
        match way:
            case "deleted":
                await call(site, "DELETE", path, bob)
            case "ended":
                await site.admin.update(
                    "api_client_authorizations",
                    token["uuid"],
                    {"expires_at": "2020-01-01T00:00:00Z"},
                )
            case "scopes":
                await site.admin.update(
                    "api_client_authorizations",
                    token["uuid"],
                    {"scopes": ["GET /arvados/v1/users/current"]},
                )
            case _:
                await asyncio.sleep(3)
        await make(site, bob, name="after")
        assert await listener.hear(bob) == []
        assert listener.socket.close_code == REFUSED


@pytest.mark.attack("an admin who is one no more, or a user who is switched off, goes on listening")
async def test_a_user_that_lost_its_rank(site: Site) -> None:
    alice, bob = await site.user("alice"), await site.user("bob")
    uuid = await me(site, bob)
    await site.admin.update("users", uuid, {"is_admin": True})
    async with listening(site, bob) as listener:
        made = (await make(site, alice, name="x"))["uuid"]
        assert about(await listener.hear(bob), made) == [("create", made)]
        await site.admin.update("users", uuid, {"is_admin": False})
        secret = (await make(site, alice, name="secret"))["uuid"]
        heard = await listener.hear(bob)
        assert about(heard, secret) == []
        await site.admin.update("users", uuid, {"is_active": False})
        other = (await make(site, alice, name="other"))["uuid"]
        assert about(await listener.hear(alice), other) == []
        assert listener.socket.close_code == REFUSED

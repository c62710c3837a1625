"""A populated API in this process, and how a generated request reaches it: one loop, no sockets,
every answer checked.

Records of every kind are there, and their uuids are put where a generator would only invent some.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lading.testing.world import ApiReply, World, call_asgi, world
from tests.postgres import PostgresServer

ROOT_TOKEN = "s" * 50


@dataclass
class Site:
    """The world, the uuids of what is in it by plural, and how often each status was answered."""

    world: World
    loop: asyncio.AbstractEventLoop
    chance: random.Random
    user: str = ""
    uuids: dict[str, list[str]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)

    def send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> ApiReply:
        """One call; the path and query as they stand in a request line."""
        parts = urlsplit(url)
        call = call_asgi(
            self.world.app,
            method,
            unquote(parts.path),
            query=parts.query,
            headers=headers,
            body=body,
        )
        reply = self.loop.run_until_complete(call)
        self.statuses[reply.status] += 1
        self.remember(parts.path, reply)
        if reply.status == 401 and headers.get("Authorization", "").endswith(self.user):
            # The calls before may have removed the user, or the token.
            self.user = self.loop.run_until_complete(
                self.world.user(f"somebody{sum(self.statuses.values())}")
            )
        return reply

    def token(self) -> str:
        """Mostly the system user's, who may do everything; now and then somebody else's, or none
        that is valid.
        """
        return self.chance.choices(
            [ROOT_TOKEN, self.user, self.world.dispatcher, "nobody's"], [12, 5, 2, 1]
        )[0]

    def uuid(self, plural: str) -> str | None:
        """The uuid of a record that was there, if there is one."""
        known = self.uuids.get(plural)
        return self.chance.choice(known) if known else None

    def remember(self, path: str, reply: ApiReply) -> None:
        """Note a record that was made."""
        plural = path.removeprefix("/arvados/v1/").partition("/")[0]
        if reply.status != 200 or not reply.body.startswith(b'{"uuid":"'):
            return
        uuid = json.loads(reply.body)["uuid"]
        known = self.uuids.setdefault(plural, [])
        if len(uuid) == 27 and uuid not in known:
            known.append(uuid)
            del known[:-50]


@contextmanager
def populated(root: Path, *, seed: int, server: PostgresServer | None = None) -> Iterator[Site]:
    """A site with records of every kind, on SQLite unless there is a server."""
    with asyncio.Runner() as runner:
        stack = _opened(root, server)
        made = runner.run(anext(stack))
        site = Site(made, runner.get_loop(), random.Random(seed))
        try:
            runner.run(_populate(site))
            yield site
        finally:
            runner.run(stack.aclose())


@asynccontextmanager
async def _world(root: Path, server: PostgresServer | None) -> AsyncIterator[World]:
    async with world(root, postgresql=await server.fresh() if server else None) as made:
        yield made


async def _opened(root: Path, server: PostgresServer | None) -> Any:
    async with _world(root, server) as made:
        yield made


async def _populate(site: Site) -> None:
    it = site.world
    site.user = await it.user("somebody")
    for name in ("project", "role"):
        await _keep(site, "groups", {"name": name, "group_class": name})
    for number in range(3):
        made = await it.collection({f"{number}.txt": b"x" * number}, name=f"c{number}")
        site.uuids.setdefault("collections", []).append(made["uuid"])
        await _keep(
            site, "links", {"link_class": "tag", "name": str(number), "head_uuid": made["uuid"]}
        )
    await _keep(site, "workflows", {"definition": "name: w\n"})
    await _keep(site, "credentials", {
        "name": "k", "credential_class": "c", "external_id": "e", "secret": "s",
        "expires_at": "2040-01-01",
    })  # fmt: skip
    for number in range(4):
        made = await it.submit(f"true {number}")
        site.uuids.setdefault("container_requests", []).append(made["uuid"])
        site.uuids.setdefault("containers", []).append(made["container_uuid"])
    await it.run(site.uuids["containers"][0])
    await it.lock(site.uuids["containers"][1])
    await _keep(site, "users", {"username": "third", "email": "third@example.org"})
    await _keep(site, "api_client_authorizations", {})
    rows = await it.ok("GET", "logs", params={"limit": 5})
    site.uuids["logs"] = [one["uuid"] for one in rows["items"]]


async def _keep(site: Site, plural: str, attributes: dict[str, Any]) -> None:
    made = await site.world.ok("POST", plural, attributes)
    site.uuids.setdefault(plural, []).append(made["uuid"])

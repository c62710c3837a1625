"""The API and TES in one process, and short ways to call them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lading.core.records.schema import JSON, Record
from lading.core.tes.mapping import TaskSite
from lading.tes.app import make_app
from lading.tes.exchange import ServiceIdentity
from lading.testing.asgi import AsgiTransport
from lading.testing.world import ApiReply, World, call_asgi, world

PREFIX = "/ga4gh/tes/v1"


@dataclass(slots=True, kw_only=True)
class TaskWorld:
    """A world with TES."""

    world: World
    app: Any

    async def call(
        self,
        method: str,
        path: str,
        body: JSON = None,
        *,
        token: str | None = None,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> ApiReply:
        """One exchange, as the admin by default; a token of "" sends none."""
        import msgspec

        given = self.world.admin if token is None else token
        sent = {"authorization": f"Bearer {given}"} if given else {}
        full = path if path.startswith("/") else f"{PREFIX}/{path}"
        payload = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        return await call_asgi(
            self.app, method, full, query=query, headers={**sent, **(headers or {})}, body=payload
        )

    async def ok(self, method: str, path: str, body: JSON = None, **more: Any) -> JSON:
        """The JSON of a call that must succeed."""
        reply = await self.call(method, path, body, **more)
        assert reply.status == 200, reply.body.decode()
        return reply.json

    async def task(self, **changes: JSON) -> Record:
        """The smallest task, with `changes`."""
        image = await self.world.ensure_image()
        return {"executors": [{"image": image, "command": ["true"]}], **changes}

    async def create(self, **changes: JSON) -> str:
        """Create a task of the admin; its id."""
        made: Record = await self.ok("POST", "tasks", await self.task(**changes))
        return str(made["id"])

    async def container(self, task: str) -> str:
        """The uuid of the container of a task."""
        return str((await self.world.ok("GET", f"container_requests/{task}"))["container_uuid"])

    async def state(self, task: str, prefix: str = PREFIX) -> str:
        """The state that a task is shown in."""
        return str((await self.ok("GET", f"{prefix}/tasks/{task}"))["state"])


@asynccontextmanager
async def task_world(root: Path, **overrides: JSON) -> AsyncIterator[TaskWorld]:
    """A world with TES below an empty directory; `overrides` are configuration keys."""
    async with world(root, **overrides) as made:
        app = make_app(
            AsgiTransport(made.app),
            made.config.TES,
            ServiceIdentity(cluster=made.cluster, url=made.config.ExternalURL),
            site=TaskSite(reuse=made.config.TES.Reuse),
            secret=b"secret",
            clock=made.clock,
        )
        yield TaskWorld(world=made, app=app)

"""The API and TES in one process, and short ways to call them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lading.core import ids
from lading.core.records.schema import JSON, Record
from lading.core.tes.file_roots import make_roots
from lading.core.tes.mapping import TaskSite
from lading.net.outside_way import OutsideNetwork
from lading.store.transfers import StoredTransfers
from lading.tes.app import make_app
from lading.tes.exchange import ServiceIdentity
from lading.tes.tasks import Tasks
from lading.tes.transfers.fetching import TransferRules
from lading.tes.transfers.worker import TransferSite, TransferWorker
from lading.testing.asgi import AsgiTransport
from lading.testing.world import ApiReply, World, call_asgi, world

PREFIX = "/ga4gh/tes/v1"
LEGACY = "/v1"
"""Address of clients of TES 1.0."""


@dataclass(slots=True, kw_only=True)
class TaskWorld:
    """A world with TES."""

    world: World
    app: Any
    tasks: Tasks
    worker: TransferWorker
    journal: StoredTransfers

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

    async def transfer(self) -> None:
        """Let the worker do what is to be done now."""
        await self.worker.look()
        await self.worker.settle()

    async def container(self, task: str) -> str:
        """The uuid of the container of a task."""
        return str((await self.world.ok("GET", f"container_requests/{task}"))["container_uuid"])

    async def full(self, task: str, prefix: str = PREFIX) -> Record:
        """A task in the view FULL."""
        found: Record = await self.ok("GET", f"{prefix}/tasks/{task}", query="view=FULL")
        return found

    async def state(self, task: str, prefix: str = PREFIX) -> str:
        """The state that a task is shown in."""
        return str((await self.ok("GET", f"{prefix}/tasks/{task}"))["state"])


class WithBlocks:
    """The API with a block store at the same address; its blocks are those of the world."""

    def __init__(self, made: World) -> None:
        self._world = made

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        path, method = scope["path"], scope["method"]
        if method == "POST" and path == "/":
            body = await self._body(receive)
            token = dict(scope["headers"])[b"authorization"].decode().partition(" ")[2]
            text = self._world.signed(self._world.blocks.put(body), token).encode() + b"\n"
            return await _answer(send, text)
        if method == "GET" and len(path.partition("+")[0]) == 33:
            return await _answer(send, await self._world.blocks.get(path[1:]))
        await self._world.app(scope, receive, send)
        return None

    async def _body(self, receive: Any) -> bytes:
        parts = []
        while True:
            message = await receive()
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                return b"".join(parts)


async def _answer(send: Any, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Hurry:
    """Pauses that are noted and not waited for."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Note a pause."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)


def make_rules(**changes: Any) -> TransferRules:
    """Rules of transfers that do not wait."""
    return TransferRules(**{"sleep": Hurry(), "chance": lambda: 0.0, **changes})


@asynccontextmanager
async def task_world(root: Path, **overrides: JSON) -> AsyncIterator[TaskWorld]:
    """A world with TES below an empty directory; `overrides` are configuration keys."""
    async with world(root, **overrides) as made:
        yield make_task_world(made)


def make_task_world(made: World) -> TaskWorld:
    """TES for a world."""
    roots = make_roots(made.config.TES.FileRoots)
    transport = AsgiTransport(WithBlocks(made))
    journal = StoredTransfers(made.database)
    site = TransferSite(
        root_token=made.config.SystemRootToken,
        system_user=ids.system_user(made.cluster),
        roots=roots,
        network=OutsideNetwork(allowed=tuple(made.config.TES.AllowedNetworks)),
        rules=make_rules(),
    )
    worker = TransferWorker(transport, journal, site, clock=made.clock)
    tasks = Tasks(
        transport,
        journal,
        worker,
        site=TaskSite(reuse=made.config.TES.Reuse, roots=roots),
        secret=b"secret",
        clock=made.clock,
    )
    identity = ServiceIdentity(cluster=made.cluster, url=made.config.ExternalURL)
    app = make_app(tasks, made.config.TES, identity, roots=roots)
    return TaskWorld(world=made, app=app, tasks=tasks, worker=worker, journal=journal)

"""A whole API in one process, with a clock that moves by hand and blocks in memory.

The database is SQLite in a directory, or PostgreSQL; sealed columns use a fixed key and nonces from
a seeded source. `async with world(tmp_path) as it:` gives the application, tokens of the admin and
of the dispatcher, and short ways to call it. Clients take `it.app` through an ASGI transport.

Tables and first records take longer to create than most tests run. So each process creates them
once, and a SQLite database starts as a copy of that file.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec

from lading.api.app import Application
from lading.api.assembly import make_app
from lading.api.bootstrap import FirstTokens
from lading.api.webhooks.receivers import WebhookSender
from lading.client.transport import HttpTransport, Transport
from lading.config.site import Config, load
from lading.core import ids
from lading.core.data import locator
from lading.core.errors import Corrupt, Full, NotFound
from lading.core.quantities import format_time
from lading.core.records.schema import JSON, Record
from lading.process.concurrency import cancel_all
from lading.store import schema
from lading.store.database import Database
from lading.store.databases.postgres import PostgresDatabase
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite import SqliteDatabase

CLUSTER = "zzzzz"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_ADMIN = "a" * 50
_DISPATCH = "d" * 50
WITH_API: Final[dict[str, JSON]] = {"vcpus": 1, "ram": 1 << 28, "API": True}
"""Constraints of a container that may call the API with its own token."""


class Clock:
    """A clock that moves a millisecond each time it is read, and otherwise by hand."""

    def __init__(self, start: datetime = START) -> None:
        self.moment = start

    def __call__(self) -> datetime:
        """The present time."""
        self.moment += timedelta(milliseconds=1)
        return self.moment

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.moment += timedelta(seconds=seconds)


class MemoryBlocks:
    """Blocks by hash, for saved logs; `damaged` ones cannot be read, and `full` takes none."""

    def __init__(self) -> None:
        self._blocks: dict[str, bytes] = {}
        self.damaged = self.full = False

    def put(self, data: bytes) -> str:
        """Store a block; its locator without signature."""
        name = hashlib.md5(data, usedforsecurity=False).hexdigest()
        self._blocks[name] = data
        return f"{name}+{len(data)}"

    async def keep(self, data: bytes, /, classes: Sequence[str] = ()) -> str:
        """As `put`. Raises Full."""
        del classes
        if self.full:
            raise Full("the store has no room")
        return self.put(data)

    async def classes(self, locators: Iterable[str], desired: Sequence[str], /) -> list[str]:
        """The storage classes of the store: "default"."""
        del locators
        return [name for name in desired if name == "default"]

    async def get(self, locator: str, /) -> bytes:
        """The block. Raises NotFound, Corrupt."""
        if self.damaged:
            raise Corrupt(f"{locator}: the block is damaged")
        try:
            return self._blocks[locator.partition("+")[0]]
        except KeyError:
            raise NotFound(f"no block {locator}") from None

    async def check(self) -> None:
        """As the store answers. Raises Corrupt."""
        if self.damaged:
            raise Corrupt("the store is damaged")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiReply:
    """The answer to a call."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> JSON:
        """The body as JSON."""
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> str:
        """The text of a refusal."""
        return "; ".join(self.json["errors"])


@dataclass(slots=True, kw_only=True)
class World:
    """The application with its clock, blocks, tokens and database."""

    app: Application
    config: Config
    database: Database
    clock: Clock
    blocks: MemoryBlocks
    admin: str
    dispatcher: str
    root: Path
    cluster: str = CLUSTER
    images: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    async def request(
        self,
        method: str,
        path: str,
        body: JSON = None,
        *,
        token: str | None = None,
        params: Mapping[str, JSON] | None = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> ApiReply:
        """Call the application as the admin by default; `path` is below /arvados/v1/ unless it
        starts with a slash.
        """
        full = path if path.startswith("/") else f"/arvados/v1/{path}"
        query = urlencode({name: _param(value) for name, value in (params or {}).items()})
        sent = {
            "authorization": f"Bearer {self.admin if token is None else token}",
            **(headers or {}),
        }
        payload = raw if raw is not None else (b"" if body is None else msgspec.json.encode(body))
        return await call_asgi(self.app, method, full, query=query, headers=sent, body=payload)

    async def ok(self, method: str, path: str, body: JSON = None, **more: object) -> JSON:
        """The JSON of a call that must succeed."""
        reply = await self.request(method, path, body, **more)  # type: ignore[arg-type]
        if reply.status >= 300:
            raise AssertionError(f"{method} {path}: {reply.status} {reply.body.decode()}")
        return reply.json

    async def user(self, name: str) -> str:
        """The token of a user, made if need be."""
        if name not in self.tokens:
            user = await self.ok(
                "POST", "users", {"user": {"username": name, "email": f"{name}@example.org"}}
            )
            token = await self.ok("POST", "api_client_authorizations", {"owner_uuid": user["uuid"]})
            self.tokens[name] = f"v2/{token['uuid']}/{token['api_token']}"
        return self.tokens[name]

    def manifest(self, files: Mapping[str, bytes]) -> str:
        """An unsigned manifest of some files, their blocks stored."""
        lines = [
            f". {self.blocks.put(data)} 0:{len(data)}:{name}\n"
            for name, data in sorted(files.items())
        ]
        return "".join(lines)

    def signed(self, manifest_locator: str, token: str, *, expiry: datetime | None = None) -> str:
        """A locator signed for a token."""
        until = int((expiry or self.clock.moment + timedelta(days=1)).timestamp())
        settings = self.config.Collections
        return locator.signed(
            manifest_locator,
            token=token,
            expiry=until,
            ttl=int(settings.BlobSigningTTL),
            key=settings.BlobSigningKey,
        )

    async def collection(
        self, files: Mapping[str, bytes], *, token: str | None = None, **attributes: JSON
    ) -> Record:
        """Store a collection of some files."""
        manifest = self.manifest(files)
        if token is not None:
            words = [
                self.signed(word, token) if _is_locator(word) else word
                for word in manifest.split(" ")
            ]
            manifest = " ".join(words)
        found: Record = await self.ok(
            "POST", "collections", {"manifest_text": manifest, **attributes}, token=token
        )
        return found

    async def collections(self, **params: JSON) -> list[Record]:
        """All collections but the empty one that every installation has."""
        empty = ["uuid", "!=", ids.empty_collection(self.cluster)]
        found: list[Record] = (
            await self.ok("GET", "collections", params={"filters": [empty], **params})
        )["items"]
        return found

    async def ensure_image(self, token: str | None = None) -> str:
        """The portable data hash of an image that requests of this token's user can name."""
        owner = token or self.admin
        if owner not in self.images:
            made = await self.collection({f"sha256:{'0' * 64}.tar": b"an image"}, token=token)
            self.images[owner] = made["portable_data_hash"]
        return self.images[owner]

    async def spec(self, *command: str, token: str | None = None, **more: JSON) -> Record:
        """The attributes of a request that is ready to be committed."""
        return {
            "command": list(command) or ["true"],
            "container_image": await self.ensure_image(token),
            "output_path": "/out",
            "mounts": {"/out": {"kind": "tmp", "capacity": 1000}},
            "runtime_constraints": {"vcpus": 1, "ram": 1 << 28},
            "priority": 1,
            "state": "Committed",
            **more,
        }

    async def submit(self, *command: str, token: str | None = None, **more: JSON) -> Record:
        """Commit a request."""
        spec = await self.spec(*command, token=token, **more)
        found: Record = await self.ok(
            "POST", "container_requests", {"container_request": spec}, token=token
        )
        return found

    async def lock(self, container_uuid: str) -> str:
        """Lock a container as the dispatcher; the supervisor's token."""
        locked = await self.ok("POST", f"containers/{container_uuid}/lock", token=self.dispatcher)
        return str(locked["supervisor_token"])

    async def container_token(self, container_uuid: str) -> str:
        """The container's own token."""
        auth = await self.ok("GET", f"containers/{container_uuid}/auth", token=self.dispatcher)
        return f"v2/{auth['uuid']}/{auth['api_token']}"

    async def run(self, container_uuid: str, *, exit_code: int = 0, **more: JSON) -> Record:
        """Lock a container, run it and let it end with a log and an output."""
        return await self.finish(
            container_uuid, await self.lock(container_uuid), exit_code=exit_code, **more
        )

    async def finish(
        self, container_uuid: str, supervisor: str, *, exit_code: int = 0, **more: JSON
    ) -> Record:
        """Run a container that is locked, and let it end with a log and an output."""
        path = f"containers/{container_uuid}"
        await self.ok("PUT", path, {"state": "Running"}, token=supervisor)
        own = await self.container_token(container_uuid)
        log = await self.collection(
            {"crunch-run.txt": container_uuid.encode()}, token=own, is_trashed=True
        )
        output = await self.collection({"out.txt": b"output"}, token=own, is_trashed=True)
        final = {
            "state": "Complete",
            "exit_code": exit_code,
            "log": log["portable_data_hash"],
            "output": output["portable_data_hash"],
            **more,
        }
        found: Record = await self.ok("PUT", path, final, token=supervisor)
        return found


@asynccontextmanager
async def world(
    root: Path,
    *,
    postgresql: Mapping[str, str | int] | None = None,
    database: Database | None = None,
    seed: int = 7,
    start: datetime = START,
    connect: Callable[[str], Transport] = HttpTransport,
    webhook_sender: WebhookSender | None = None,
    **overrides: JSON,
) -> AsyncIterator[World]:
    """A fresh world below an empty directory; `overrides` are configuration keys; `connect` makes a
    transport to the provider at which people log in, `webhook_sender` sends events.

    `postgresql` is the address of an empty PostgreSQL database, used instead of SQLite; then events
    are relayed too. Worlds on one database need different seeds. `database` is one that is open and
    prepared already. The clock begins at `start`.
    """
    settings = {
        "ClusterID": CLUSTER,
        "SystemRootToken": "s" * 50,
        "ManagementToken": "m" * 50,
        "ExternalURL": "https://127.0.0.1:9440/",
        "Collections": {"BlobSigningKey": "k" * 50},
        **overrides,
    }
    config = load(None, settings)
    foreign = database
    if database is None:
        database = await _open(root, postgresql, config, is_usual="Users" not in overrides)
    clock, blocks, source = (
        Clock(start),
        MemoryBlocks(),
        random.Random(seed),
    )  # a fake: seeded on purpose
    try:
        app = make_app(
            database,
            config,
            clock=clock,
            entropy=source.randbytes,
            blocks=blocks,
            live=root / "live",
            connect=connect,
            webhook_sender=webhook_sender,
        )
        first = FirstTokens(
            admin_uuid=f"{CLUSTER}-{ids.Infix.USER}-{'a' * 15}",
            admin_token_uuid=f"{CLUSTER}-{ids.Infix.TOKEN}-{'a' * 15}",
            admin_secret=_ADMIN,
            dispatch_token_uuid=f"{CLUSTER}-{ids.Infix.TOKEN}-{'d' * 15}",
            dispatch_secret=_DISPATCH,
        )
        await app.bootstrap(first)
        relay = asyncio.create_task(app.relay.run(), name="relay of events")
        yield World(
            app=app,
            config=config,
            database=database,
            clock=clock,
            blocks=blocks,
            admin=f"v2/{first.admin_token_uuid}/{_ADMIN}",
            dispatcher=f"v2/{first.dispatch_token_uuid}/{_DISPATCH}",
            root=root,
        )
        await cancel_all(relay)
    finally:
        if foreign is None:
            await database.close()


async def _open(
    root: Path, postgresql: Mapping[str, str | int] | None, config: Config, *, is_usual: bool
) -> Database:
    """A prepared database; a new SQLite database has first records too if the settings of users
    are the usual ones.
    """
    seal = make_seal(config.SystemRootToken)
    if postgresql is None:
        path = root / "db.sqlite"
        if not path.exists():
            path.write_bytes(_file_with_records(config.ClusterID) if is_usual else prepared_file())
        return SqliteDatabase(path, seal=seal)
    database = await PostgresDatabase.open(postgresql, seal=seal, readers=4)
    try:
        await schema.prepare(database, now=format_time(START))
    except BaseException:
        await database.close()
        raise
    return database


@cache
def prepared_file() -> bytes:
    """The content of a SQLite file with all tables and no records."""

    async def prepare(database: Database) -> None:
        await schema.prepare(database, now=format_time(START))

    return _make_file(b"", prepare)


@cache
def _file_with_records(cluster: str) -> bytes:
    """The content of a SQLite file with the first records of a cluster."""

    return _make_file(prepared_file(), partial(add_first_records, cluster=cluster))


async def add_first_records(database: Database, *, cluster: str = CLUSTER) -> None:
    """Create the first records of a cluster in an empty database, for worlds to start with.

    They are older than the records of those worlds, and a seed of their own gives other uuids.
    """
    start = START - timedelta(minutes=1)
    with tempfile.TemporaryDirectory() as root:
        async with world(
            Path(root), database=database, seed=1 << 40, start=start, ClusterID=cluster
        ):
            pass


def _make_file(content: bytes, change: Callable[[Database], Awaitable[None]]) -> bytes:
    """The content of a SQLite file after a change.

    The change has an event loop and a thread of its own: callers run in a loop already.
    """

    async def change_file() -> None:
        database = SqliteDatabase(path, seal=make_seal())
        try:
            await change(database)
        finally:
            await database.close()

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        path = Path(folder) / "db"
        path.write_bytes(content)
        thread.submit(asyncio.run, change_file()).result()
        return path.read_bytes()


async def call_asgi(
    app: Application,
    method: str,
    path: str,
    *,
    query: str = "",
    headers: Mapping[str, str],
    body: bytes = b"",
) -> ApiReply:
    """One HTTP exchange with an ASGI application."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [
            (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
        ],
        "client": ("127.0.0.1", 1),
    }
    sent: list[Record] = []

    async def receive() -> Record:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Record) -> None:
        sent.append(message)

    await app(scope, receive, send)  # type: ignore[arg-type]
    return ApiReply(
        status=sent[0]["status"],
        headers={name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]},
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )


def _param(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _is_locator(word: str) -> bool:
    return len(word) > 33 and word[32] == "+"


def make_seal(secret: str = "s" * 50) -> Seal:
    """A seal; those of the same secret open each other's texts."""
    return Seal(secret, entropy=random.Random(7).randbytes)  # a fake: seeded on purpose

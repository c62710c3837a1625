"""A whole server in a thread of its own, as commands see one: the API and the blocks on a Unix
socket.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    MutableMapping,
)
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from lading.api.app import OWNED_PATHS
from lading.blobs.app import make_app as make_block_app
from lading.blobs.volume import Buffer, Stored
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.cli.main import cli
from lading.cli.session import CliSession
from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.record_events import events
from lading.client.retry import RetryPolicy
from lading.client.transport import HttpTransport
from lading.core.records.schema import JSON
from lading.testing.asgi import AsgiTransport, serving
from lading.testing.blocks import MemoryVolume
from lading.testing.world import MemoryBlocks, World, world
from lading.wiring.applications.page import OnDemandPage, is_page_path

# A live log may be taken away while it is read; commands try that again, as everything of the kind.
_PATIENCE = RetryPolicy(attempts=3, base=0.01)
_Answer = TypeVar("_Answer")
_STAMP = b"2026-01-02T03:04:05.000000000Z "


class _Volume(MemoryVolume):
    """The blocks of a world as a volume."""

    def __init__(self, blocks: MemoryBlocks) -> None:
        super().__init__()
        self._all = blocks

    async def put(self, hash: str, data: Buffer) -> None:
        self._all.put(bytes(data))

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        return await self._all.get(hash)

    async def head(self, hash: str) -> Stored:
        return Stored(hash, len(await self.get(hash)), 0)


@dataclass(frozen=True, kw_only=True)
class Play:
    """What a container does: its streams, its output, and how it ends."""

    stdout: bytes = b""
    stderr: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=lambda: {"result.txt": b"42\n"})
    exit_code: int = 0
    error: str = ""
    failure: str = "oom"
    complaint: str = ""
    warning: str = ""
    warning_detail: str = ""


class Site:
    """The server, ways to command it, and a stage for containers."""

    def __init__(self, root: Path, **overrides: JSON) -> None:
        """`overrides` are keys of its configuration."""
        self._overrides = overrides
        self.world: World
        self.socket = root / "api.sock"
        self._root = root
        self.loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="site")

    def __enter__(self) -> Site:
        self._thread.start()
        assert self._is_ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        self.loop.close()

    def call(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Do something in the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def lading(
        self, *arguments: str, code: int = 0, stdin: bytes | None = None, token: str | None = None
    ) -> Result:
        """Run one command, with the admin's token or another one; it must leave with `code`."""
        connect = partial(self.connect, token)
        done = CliRunner().invoke(cli, arguments, obj=connect, input=stdin, catch_exceptions=False)
        assert done.exit_code == code, (done.exit_code, done.stdout, done.stderr)
        return done

    @asynccontextmanager
    async def connect(self, token: str | None = None) -> AsyncGenerator[CliSession]:
        """A session for one command."""
        token = token or self.world.admin
        async with HttpTransport(unix_socket=self.socket) as transport:
            yield CliSession(
                api=ApiClient(transport, token, retry=_PATIENCE),
                blocks=BlockClient(transport, token, retry=_PATIENCE),
            )

    def command(self, *arguments: str, plays: list[Play], code: int = 0) -> Result:
        """Run one command while containers are acted on the stage, one play each, in the order in
        which they come.
        """
        with self.acting(*plays):
            return self.lading(*arguments, code=code)

    @contextmanager
    def acting(self, *plays: Play) -> Generator[None]:
        """Containers that come inside are acted on the stage, one play each."""
        others = {one["uuid"] for one in self.call(self.queued())}
        acting = asyncio.run_coroutine_threadsafe(self._act(list(plays), others), self.loop)
        try:
            yield
        finally:
            acting.cancel()

    async def queued(self) -> list[Record]:
        """The containers that wait, oldest first."""
        filters = [["state", "=", "Queued"]]
        answer = await self.world.ok(
            "GET", "containers", params={"filters": filters, "order": ["created_at asc"]}
        )
        found: list[Record] = answer["items"]
        return found

    async def _act(self, plays: list[Play], others: set[str]) -> None:
        waiting = list(plays)
        async with HttpTransport(unix_socket=self.socket) as transport:
            api = ApiClient(transport, self.world.dispatcher)
            async with aclosing(events(api)) as heard:
                async for _ in heard:
                    for container in await self.queued():
                        if container["uuid"] not in others:
                            await perform(self.world, container, waiting.pop(0))

    def _serve(self) -> None:
        self.loop.run_until_complete(self._main())

    async def _main(self) -> None:
        async with world(self._root, **self._overrides) as self.world:
            clock = self.world.clock
            blocks = make_block_app(
                VolumeSet(
                    [
                        VolumeMount(
                            uuid="zzzzz-nyw5e-000000000000000",
                            volume=_Volume(self.world.blocks),
                            copies=None,
                        )
                    ]
                ),
                self.world.config,
                clock=lambda: clock.moment.timestamp(),
                check_token=self.world.app.check_token,
            )
            inner = AsgiTransport(self.world.app)
            page = OnDemandPage(inner, self._root / "page")
            app = _combine(self.world.app, blocks, page)
            async with serving(app, uds=str(self.socket)):
                self._is_ready.set()
                await self._stop.wait()


async def perform(world: World, container: Record, play: Play) -> None:
    """Act one container from its lock to its end, with a live log and a saved one."""
    path = f"containers/{container['uuid']}"
    supervisor = await world.lock(container["uuid"])
    await world.ok("PUT", path, {"state": "Running"}, token=supervisor)
    logs = {
        "stdout.txt": stamped(play.stdout),
        "stderr.txt": stamped(play.stderr),
        "crunch-run.txt": _STAMP + b"hi\n",
    }
    for name, text in logs.items():
        live = f"{path}/live/{name}"
        await world.ok(
            "POST", live, params={"offset": 0}, raw=text[: len(text) // 2], token=supervisor
        )
    log = await world.collection(
        {name: text for name, text in logs.items() if text}, is_trashed=True
    )
    final: Record = {"state": "Cancelled", "log": log["portable_data_hash"]}
    if play.error:
        final["runtime_status"] = {"error": play.error, "failure": play.failure}
    else:
        output = await world.collection(play.files, is_trashed=True)
        ended = {
            "state": "Complete",
            "exit_code": play.exit_code,
            "output": output["portable_data_hash"],
        }
        status = {
            "error": play.complaint,
            "warning": play.warning,
            "warningDetail": play.warning_detail,
        }
        ended["runtime_status"] = {name: text for name, text in status.items() if text}
        final = {**final, **ended}
    await world.ok("PUT", path, final, token=supervisor)


def stamped(text: bytes) -> bytes:
    """The text as a log file has it."""
    return b"".join(_STAMP + line for line in text.splitlines(keepends=True))


def _combine(
    api: Callable[..., Awaitable[None]],
    blocks: Callable[..., Awaitable[None]],
    page: Callable[..., Awaitable[None]],
) -> Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]:
    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        mine = scope["type"] != "http" or scope["path"].startswith(OWNED_PATHS)
        chosen = page if not mine and is_page_path(scope) else blocks
        await (api if mine else chosen)(scope, receive, send)

    return app

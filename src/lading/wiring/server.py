"""The server process: the API and the block store as one ASGI application on HTTPS and on the local socket.

python -m lading.wiring.server --data DIR --listen HOST:PORT --parent PID --ready-fd N
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from datetime import UTC, datetime
from typing import Any

import uvicorn

from lading.api.app import OWNED_PATHS, Application, make_app
from lading.api.bootstrap import FirstTokens
from lading.blobs.app import make_app as make_block_app
from lading.blobs.volume import DirectoryVolume, Volume
from lading.config import Config
from lading.core import locator
from lading.core.errors import Invalid, LadingError, Unavailable
from lading.core.timestamps import format_time
from lading.store.database import Database
from lading.store.schema import prepare
from lading.store.seal import Seal
from lading.store.sqlite import SqliteDatabase
from lading.telemetry import configure
from lading.wiring.directory import DataDirectory, Secrets
from lading.wiring.options import Options, parse_options
from lading.wiring.process import end_with_parent, report_ready
from lading.wiring.up import parse_listen

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_BACKLOG = 1024
_DRAIN = 10


class VolumeReader:
    """How the API reads blocks: from the volume beside it."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume

    async def get(self, text: str, /) -> bytes:
        """The verified bytes of the block that a locator names. Raises NotFound or Corrupt."""
        return await self._volume.get(locator.parse(text).hash)


def combine(api: App, blocks: App) -> App:
    """One application of both: the API's own paths to the API, everything else names a block."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        mine = scope["type"] != "http" or scope["path"].startswith(OWNED_PATHS) or scope["path"] == "/"
        await (api if mine else blocks)(scope, receive, send)

    return app


async def serve(directory: DataDirectory, listen: str, *, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
    """Serve until `stop` is set. Raises Unavailable when the address cannot be had.

    More servers may serve one directory when the configuration names a PostgreSQL database: each has an address and a
    local socket of its own (`DataDirectory.another_socket`), and all hear of what any of them commits.
    """
    secrets = directory.secrets()
    config = directory.config(secrets, address=listen)
    database = await _open_database(config, directory)
    try:
        await prepare(database, now=format_time(datetime.now(UTC)))
        volume = DirectoryVolume(directory.blocks)
        api = _make_api(database, volume, config, directory)
        await api.bootstrap(_first_tokens(secrets))
        blocks = make_block_app([volume], config.Collections, clock=time.time, check_token=api.check_token)
        await _listen(combine(api, blocks), api, directory, listen, stop, on_ready)
    finally:
        await database.close()


async def _open_database(config: Config, directory: DataDirectory) -> Database:
    """PostgreSQL where the configuration names one, else the file."""
    seal, settings = Seal(config.SystemRootToken, entropy=os.urandom), config.PostgreSQL
    if not settings.Connection:
        if directory.another_socket is not None:
            raise Invalid("a second server on a directory needs PostgreSQL.Connection in the configuration")
        return SqliteDatabase(directory.database, seal=seal)
    from lading.store.postgres import PostgresDatabase

    return await PostgresDatabase.open(settings.Connection, seal=seal, readers=settings.ConnectionPool)


def _make_api(database: Database, volume: Volume, config: Config, directory: DataDirectory) -> Application:
    return make_app(
        database,
        config,
        clock=lambda: datetime.now(UTC),
        entropy=os.urandom,
        blocks=VolumeReader(volume),
        live=directory.live,
    )


def _first_tokens(secrets: Secrets) -> FirstTokens:
    return FirstTokens(
        admin_uuid=secrets.admin_uuid,
        admin_token_uuid=secrets.admin_token_uuid,
        admin_secret=secrets.admin_token_secret,
        dispatch_token_uuid=secrets.dispatch_token_uuid,
        dispatch_secret=secrets.dispatch_token_secret,
    )


async def _listen(
    app: App,
    api: Application,
    directory: DataDirectory,
    listen: str,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
) -> None:
    common: dict[str, Any] = {
        "loop": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": _DRAIN,
        "ws": "websockets-sansio",
        "ws_max_size": 1 << 20,
        "timeout_keep_alive": 60,
    }
    public = _Server(uvicorn.Config(app, ssl_certfile=directory.certificate, ssl_keyfile=str(directory.key), **common))
    local = _Server(uvicorn.Config(app, **common))
    with _tcp_socket(listen) as tcp, _unix_socket(directory) as unix:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(public.serve([tcp]), name="https")
            tasks.create_task(local.serve([unix]), name="local socket")
            tending = tasks.create_task(api.tend(), name="events and sweeps")
            await public.serving.wait()
            await local.serving.wait()
            on_ready()
            await stop.wait()
            tending.cancel()
            public.should_exit = local.should_exit = True


class _Server(uvicorn.Server):
    """Leaves signals to the caller, who stops two servers at once, and says when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _tcp_socket(listen: str) -> socket.socket:
    host, port = parse_listen(listen)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as undo:
            made = undo.enter_context(socket.socket(family, kind, protocol))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(_BACKLOG)
            undo.pop_all()
            return made
    except OSError as error:
        raise Unavailable(f"cannot listen on {listen}: {error.strerror}; choose another --listen HOST:PORT") from error


def _unix_socket(directory: DataDirectory) -> socket.socket:
    directory.socket.unlink(missing_ok=True)
    try:
        with contextlib.ExitStack() as undo:
            made = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            made.bind(str(directory.socket))
            directory.socket.chmod(0o600)
            made.listen(_BACKLOG)
            undo.pop_all()
            return made
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {directory.socket}: {error}; choose a --data with a shorter path"
        ) from error


def main(options: Options) -> int:
    """Run the server process; its exit code. A failure is one line on standard error."""
    end_with_parent(options.parent)
    configure()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_run(options))
    except LadingError as error:
        print(error.message, file=sys.stderr)  # noqa: T201 - the parent repeats the last line of this log
        return 1
    return 0


async def _run(options: Options) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await serve(options.directory, options.listen, stop=stop, on_ready=lambda: report_ready(options.ready))


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


if __name__ == "__main__":
    sys.exit(main(parse_options("lading.wiring.server")))

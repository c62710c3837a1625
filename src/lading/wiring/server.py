"""The server process: the API and the block store as one ASGI application.

    python -m lading.wiring.server --data DIR --listen HOST:PORT --parent PID --ready-fd N

It serves HTTPS and the local socket by uvicorn, with the limits of the configuration: connections
come through `net.acceptor`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import hashlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn

from lading.api.app import OWNED_PATHS, Application
from lading.api.assembly import make_app
from lading.api.bootstrap import FirstTokens
from lading.api.container_access.port_addresses import PortAddresses, make_sites
from lading.api.logins.authentication import find_user
from lading.api.logins.s3_keys import find_s3_secret
from lading.api.metrics import METRICS
from lading.blobs.app import make_app as make_block_app
from lading.blobs.app import owns
from lading.blobs.fd_passing import FdPasser
from lading.blobs.metrics import BlockMetrics
from lading.blobs.volume_set import VolumeSet
from lading.config.site import Config
from lading.core.data import locator, placement
from lading.core.data.placement import DesiredReplication
from lading.core.errors import LadingError, Unavailable
from lading.core.protocols.connection_limits import ConnectionTable
from lading.core.quantities import format_time
from lading.net.acceptor import FindUser
from lading.process.telemetry import configure
from lading.process.tracing import open_tracer
from lading.store.database import Database
from lading.store.schema import prepare
from lading.tes.app import owns as owns_task_path
from lading.tes.wes_app import owns as owns_run_path
from lading.webdav import file_request
from lading.wiring.applications.file_servers import OwnedCalls, make_file_servers
from lading.wiring.applications.ga4gh import make_ga4gh
from lading.wiring.applications.page import OnDemandPage, is_page_path, owns_socket
from lading.wiring.directory import DataDirectory, Secrets
from lading.wiring.http_metrics import HttpMetrics, read_logged_calls
from lading.wiring.http_protocol import ReceivingProtocol
from lading.wiring.idle_shutdown import ClientActivity, end_when_idle, has_work
from lading.wiring.limited_server import LimitedServer, make_limits
from lading.wiring.listen_address import parse_listen
from lading.wiring.own_transport import OwnTransport
from lading.wiring.process import (
    ChildOptions,
    StartReport,
    come_before,
    configure_logs,
    end_with_parent,
    open_many_files,
    parse_options,
    tracing_settings,
)
from lading.wiring.stores import RecordedReferences, open_database
from lading.wiring.upkeep import Storage, describe_storage, keep_up
from lading.wiring.volumes import open_mounts
from lading.wiring.websocket_protocol import EventsProtocol

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
# Connections that the kernel holds until they are accepted; it cuts this to net.core.somaxconn.
_BACKLOG = 1024
# Seconds for responses in progress at shutdown; afterwards they are cut off.
_DRAIN = 10
# Highest nice priority: calls need little processor time, and containers may use all processors.
_PRIORITY = -20


class VolumeBlocks:
    """Access of the API to blocks, in the volumes of the same process."""

    def __init__(self, mounts: VolumeSet, config: Config) -> None:
        self._mounts = mounts
        classes = tuple(
            name for name, settings in config.StorageClasses.items() if settings.get("Default")
        )
        self._default = classes or ("default",)
        self._copies = config.Collections.DefaultReplication

    async def get(self, block_locator: str, /) -> bytes:
        """The verified bytes of the block that a locator names. Raises NotFound or Corrupt."""
        return bytes(await self._mounts.get(locator.parse(block_locator).hash))

    async def keep(self, data: bytes, /, classes: Sequence[str] = ()) -> str:
        """Store a small block; see Blocks. Raises Full, Unavailable."""
        offered = placement.served(classes, self._mounts.classes, self._default)
        name = hashlib.md5(data, usedforsecurity=False).hexdigest()
        # Ask for existing copies only when there is a choice of volumes.
        places = await self._mounts.places(name, look=len(self._mounts.writable) > 1)
        desired = DesiredReplication(copies=self._copies, classes=offered)
        await self._mounts.put(name, data, desired=desired, places=places)
        return f"{name}+{len(data)}"

    async def classes(self, locators: Iterable[str], desired: Sequence[str], /) -> list[str]:
        """The desired storage classes in which every block is known to be kept; see Blocks."""
        return await self._mounts.classes_of(
            (block_locator[:32] for block_locator in locators), desired
        )

    async def check(self) -> None:
        """Ask whether a volume answers that blocks can be written to; any volume where there is
        none. Raises Unavailable, Corrupt.
        """
        await self._mounts.check()


def combine(
    api: App,
    blocks: App,
    files: App,
    sites: PortAddresses,
    ga4gh: App | None = None,
    page: App | None = None,
    metrics: HttpMetrics | None = None,
    s3: OwnedCalls | None = None,
) -> App:
    """One application for blocks, files of collections, S3, TES and WES (`ga4gh`), the page and
    the API, which also answers unknown paths. `metrics` counts the calls of each.
    """
    s3_app = None if s3 is None else s3.app
    if metrics is not None:
        api, blocks, files = (
            metrics.measured(name, application)
            for name, application in (("api", api), ("blocks", blocks), ("files", files))
        )
        s3_app = metrics.measured("s3", s3_app) if s3_app is not None else None
        ga4gh = metrics.measured("ga4gh", ga4gh) if ga4gh is not None else None
        page = metrics.measured("page", page) if page is not None else None

    # In this order: each one takes what those before it have left.
    owners: tuple[tuple[App | None, Callable[[Scope], bool]], ...] = (
        (page, lambda scope: scope["type"] == "websocket" and owns_socket(scope["path"])),
        (api, lambda scope: _is_for_api(scope, sites)),
        (s3_app, lambda scope: s3 is not None and s3.owns(scope)),
        (files, file_request.is_file_call),
        (ga4gh, lambda scope: owns_task_path(scope["path"]) or owns_run_path(scope["path"])),
        (page, is_page_path),
        (blocks, lambda scope: owns(scope["method"], scope["path"])),
    )
    offered = [
        (application, owns_call) for application, owns_call in owners if application is not None
    ]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = next((application for application, owns_call in offered if owns_call(scope)), api)
        await chosen(scope, receive, send)

    return app


def _is_for_api(scope: Scope, sites: PortAddresses) -> bool:
    """Whether a call is for the API, whatever else its path may name: websockets that are not the
    page's, and ports of containers, which have hosts of their own.
    """
    return (
        scope["type"] != "http"
        or scope["path"].startswith(OWNED_PATHS)
        or sites.find(scope) is not None
    )


async def serve(
    directory: DataDirectory,
    listen: str,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
    end_site: Callable[[], None] | None = None,
) -> None:
    """Serve until `stop` is set. With `end_site`, call it once the site has been without work for
    `Local.IdleShutdown`. Raises Unavailable when the address cannot be bound.

    More servers may serve one directory when the configuration names a PostgreSQL database: each
    has an address and a local socket of its own (`DataDirectory.another_socket`), and all get the
    events of all.
    """
    secrets = directory.secrets()
    config = directory.config(secrets, address=listen)
    sites = make_sites(config)
    tracer = open_tracer(tracing_settings(config), "server")
    database = await open_database(config, directory)
    try:
        await prepare(database, now=format_time(datetime.now(UTC)))
        async with contextlib.aclosing(await open_mounts(config, directory)) as mounts:
            storage = Storage(
                directory=directory,
                config=config,
                mounts=mounts,
                references=RecordedReferences(database, config),
            )
            api = _make_api(database, config, storage)
            await api.bootstrap(_first_tokens(secrets))
            check, registry = api.check_token, api.services.features[METRICS].registry
            traffic = BlockMetrics(registry)
            blocks = make_block_app(
                mounts, config, clock=time.time, check_token=check, metrics=traffic
            )
            lender = FdPasser(mounts, config, clock=time.time, check_token=check, metrics=traffic)
            tending: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (
                api.tend,
                functools.partial(keep_up, storage),
                functools.partial(_lend, lender, directory.lender),
            )
            # The server of files is an ordinary client: it uses the local socket and the tokens of
            # its callers.
            most = make_limits(config).connections
            async with OwnTransport(api, unix_socket=directory.socket, most=most) as transport:
                files = make_file_servers(
                    transport,
                    config,
                    directory,
                    find_secret=functools.partial(find_s3_secret, api.services),
                )
                ga4gh = make_ga4gh(transport, config, database)
                page = OnDemandPage(transport, directory.page)
                logged = read_logged_calls(config.SystemLogs.LogRequests)
                counting = HttpMetrics(registry, logged, tracer)
                app = combine(api, blocks, files.webdav, sites, ga4gh.app, page, counting, files.s3)
                heard = (listen, *sites.addresses(listen))
                tending = (*tending, ga4gh.worker.run)
                find_holder = functools.partial(find_user, api.services)
                public: App = app
                limit = config.Local.IdleShutdown
                if end_site is not None and limit > 0:
                    activity = ClientActivity(asyncio.get_running_loop().time)
                    public = activity.watched(app)
                    tending = (
                        *tending,
                        functools.partial(
                            end_when_idle,
                            activity,
                            functools.partial(has_work, database),
                            limit=limit,
                            end=end_site,
                        ),
                    )
                served = ServedApplications(public=public, local=app)
                await _listen(
                    served, tending, directory, heard, stop, on_ready, sites, config, find_holder
                )
    finally:
        await database.close()
        await asyncio.to_thread(tracer.close)


def _make_api(database: Database, config: Config, storage: Storage) -> Application:
    directory = storage.directory
    return make_app(
        database,
        config,
        clock=lambda: datetime.now(UTC),
        entropy=os.urandom,
        blocks=VolumeBlocks(storage.mounts, config),
        storage=functools.partial(describe_storage, storage),
        live=directory.live,
        certificate=directory.certificate,
    )


def _first_tokens(secrets: Secrets) -> FirstTokens:
    return FirstTokens(
        admin_uuid=secrets.admin_uuid,
        admin_token_uuid=secrets.admin_token_uuid,
        admin_secret=secrets.admin_token_secret,
        dispatch_token_uuid=secrets.dispatch_token_uuid,
        dispatch_secret=secrets.dispatch_token_secret,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApplications:
    """The application as clients reach it, and as processes of this site reach it on the local
    socket.
    """

    public: App
    local: App


async def _listen(
    apps: ServedApplications,
    tending: Sequence[Callable[[], Coroutine[Any, Any, None]]],
    directory: DataDirectory,
    listen: Sequence[str],
    stop: asyncio.Event,
    on_ready: Callable[[], None],
    sites: PortAddresses,
    config: Config,
    find_user: FindUser,
) -> None:
    proxies, limits = config.API.TrustedProxies, make_limits(config)
    table = ConnectionTable(limits)
    common: dict[str, Any] = {
        "http": type("Reception", (ReceivingProtocol,), {"sites": sites}),
        # The runner has made the loop: uvicorn must not replace it.
        "loop": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": _DRAIN,
        "ws": EventsProtocol,
        # To compress each event anew for each client costs more than its bytes.
        "ws_per_message_deflate": False,
        # Bytes of a message from a client; filters of a subscription are far smaller.
        "ws_max_size": 1 << 20,
        "timeout_keep_alive": limits.idle_seconds,
    }
    # Container gateways are contacted at the source address of a call, so no header may override
    # that address.
    forwarded: dict[str, Any] = {
        "proxy_headers": bool(proxies),
        "forwarded_allow_ips": list(proxies),
    }
    tls: dict[str, Any] = {"ssl_certfile": directory.certificate, "ssl_keyfile": str(directory.key)}
    public = LimitedServer(
        uvicorn.Config(apps.public, **tls, **common, **forwarded), table, find_user=find_user
    )
    # No proxy connects to the local socket.
    local = LimitedServer(uvicorn.Config(apps.local, proxy_headers=False, **common), table)
    with (
        contextlib.ExitStack() as sockets,
        _unix_socket(directory.socket, socket.SOCK_STREAM) as unix,
    ):
        tcp = [sockets.enter_context(_tcp_socket(address)) for address in listen]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(public.serve(tcp), name="https")
            tasks.create_task(local.serve([unix]), name="local socket")
            tended = [tasks.create_task(work(), name="upkeep") for work in tending]
            await public.serving.wait()
            await local.serving.wait()
            # After the start, when the long-lived objects exist.
            _settle_memory()
            on_ready()
            await stop.wait()
            for task in tended:
                # Maintenance stops before the servers: it uses the database, which is closed
                # afterwards.
                task.cancel()
            public.should_exit = local.should_exit = True


def _settle_memory() -> None:
    """Exclude the objects of the start from garbage collection, and collect less often.

    A request makes thousands of objects and few cycles; a full collection delays other requests.
    """
    gc.collect()
    gc.freeze()
    # Python's defaults are 700, 10, 10: many more collections for each call.
    gc.set_threshold(20_000, 20, 20)


def _tcp_socket(listen: str) -> socket.socket:
    host, port = parse_listen(listen)
    try:
        # The first address only: `listen` names one address.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        with contextlib.ExitStack() as undo:
            server_socket = undo.enter_context(socket.socket(family, kind, protocol))
            # A restart must not wait for connections in TIME_WAIT of the earlier server.
            server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server_socket.bind(address)
            server_socket.listen(_BACKLOG)
            undo.pop_all()
            return server_socket
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {listen}: {error.strerror}; choose another --listen HOST:PORT"
        ) from error


def _unix_socket(path: Path, kind: socket.SocketKind) -> socket.socket:
    # Left by an earlier server: bind fails on an existing path. The data directory is locked.
    path.unlink(missing_ok=True)
    try:
        with contextlib.ExitStack() as undo:
            server_socket = undo.enter_context(socket.socket(socket.AF_UNIX, kind))
            server_socket.bind(str(path))
            # Before listen: no connection is possible while the socket has the mode of the umask.
            path.chmod(0o600)
            server_socket.listen(_BACKLOG)
            undo.pop_all()
            return server_socket
    except OSError as error:
        # A common cause: paths of Unix sockets have at most 107 bytes (unix(7)).
        raise Unavailable(
            f"cannot listen on {path}: {error}; choose a --data with a shorter path"
        ) from error


async def _lend(lender: FdPasser, path: Path) -> None:
    # SOCK_SEQPACKET keeps requests apart, and passes descriptors with them (unix(7)).
    with _unix_socket(path, socket.SOCK_SEQPACKET) as listening:
        await lender.serve(listening)


def main(options: ChildOptions) -> int:
    """Run the server process; its exit code. A failure is one line on standard error."""
    end_with_parent(options.parent)
    # Containers of this machine may use all processors; a call needs little CPU time.
    come_before(_PRIORITY)
    # Each session, WebSocket and tunnel needs a file descriptor.
    open_many_files()
    configure()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    start = StartReport(options.ready)
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_run(options, start))
    except LadingError as error:
        start.failed(error.message)
        return 1
    return 0


async def _run(options: ChildOptions, start: StartReport) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    directory = options.directory
    configure_logs(directory.config(directory.secrets(), address=options.listen))
    end_site = functools.partial(os.kill, options.parent, signal.SIGTERM)
    await serve(
        directory,
        options.listen,
        stop=stop,
        on_ready=start.succeeded,
        end_site=end_site if options.until_idle else None,
    )


def _new_loop() -> asyncio.AbstractEventLoop:
    # Imported here: only the server process needs it.
    import uvloop

    return uvloop.new_event_loop()


if __name__ == "__main__":
    sys.exit(main(parse_options("lading.wiring.server")))

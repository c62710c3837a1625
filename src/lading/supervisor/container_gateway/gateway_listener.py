"""Listening socket of a container's gateway; everything else is loaded with the first connection.

Most containers are never entered, so each of them pays for a socket only. TLS, the certificate, SSH
and their libraries come with the first connection. When the server cannot reach this machine, the
gateway connects to the server instead, once the container has run for a moment, and again whenever
that connection ends (docs/spec/shell, sections Gateway and Tunnel).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from lading.core.containers.container import TUNNEL
from lading.core.errors import LadingError
from lading.supervisor.engines import Engine
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig

NONE = "none"
DIRECT = "direct"
"""The server connects to the address of this machine, a tunnel is for where it refuses that."""
_LOOPBACK = "127.0.0.1"
# Connections that wait to be accepted; the callers are servers, which are few.
_BACKLOG = 64
# Imported by name at the first connection, so that a supervisor does not load asyncssh.
_MODULES = (
    "lading.supervisor.container_gateway.server",
    "lading.supervisor.container_gateway.outbound",
)
_logger = logging.getLogger("lading.supervisor")


class GatewayListener:
    """The gateway of one container. `say` writes a line into its log."""

    def __init__(
        self,
        config: SupervisorConfig,
        session: SupervisorSession,
        engine: Engine,
        say: Callable[[str], None],
    ) -> None:
        self._config = config
        self._session = session
        self.engine = engine
        self._say = say
        self._socket: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._server: Any = None
        # Without a configured address the server decides whether it can reach this machine.
        self._is_offer = not config.gateway and not config.api_socket
        self._is_own = self._is_offer or config.gateway == DIRECT
        self._requested = TUNNEL if self._is_own else config.gateway

    async def find_address(self) -> None:
        """Find the address of this machine where the gateway is to listen at it. Call it before
        `open`.
        """
        if not self._is_own:
            return
        # In a thread: the name of the server may have to be looked up.
        host = await asyncio.to_thread(own_address, self._config)
        if host and not (self._is_offer and _is_loopback(host)):
            self._requested = f"{host}:0"

    @property
    def is_tunnelled(self) -> bool:
        """Whether the gateway connects to the server, rather than the server to it."""
        return self._requested == TUNNEL

    async def fall_back(self) -> bool:
        """Open a tunnel where the server has refused to connect to this machine; whether that is
        wanted.
        """
        if self.is_tunnelled or not self._is_own:
            return False
        await self.close()
        self._requested = TUNNEL
        return bool(self.open())

    def open(self) -> str:
        """Listen; return the address for the container's record, or "" without a gateway."""
        key = self._session.gateway_key
        if not key or self._requested == NONE or self._socket is not None:
            return ""
        host = _LOOPBACK
        if not self.is_tunnelled and self._requested:
            host = self._requested.rpartition(":")[0].strip("[]")
        try:
            self._socket = _listen(host, self._requested)
        except OSError as error:
            self._say(f"nobody can enter this container: {host}: {error.strerror}")
            return ""
        asyncio.get_running_loop().add_reader(self._socket, self._knocked)
        if self.is_tunnelled:
            self._start(self._reach_out())
            return TUNNEL
        shown = f"[{host}]" if ":" in host else host
        address = f"{shown}:{self._socket.getsockname()[1]}"
        return _offer(address) if self._is_offer else address

    async def close(self) -> None:
        """End all sessions. Idempotent."""
        # Taken first, so that a second call does nothing.
        listening, self._socket = self._socket, None
        if listening is None:
            return
        # With a server the reader was removed by the first connection.
        if self._server is None:
            asyncio.get_running_loop().remove_reader(listening)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.close()
        listening.close()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work, name="gateway")
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error(
                "container=%s gateway: %r", self._config.container_uuid, error, exc_info=error
            )
            self._say(f"nobody can enter this container any more: {error!r}")

    def _knocked(self) -> None:
        if self._socket is not None and self._server is None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._start(self._serve())

    async def _serve(self) -> None:
        assert self._socket is not None
        try:
            module = await _load(_MODULES[0])
            server = module.GatewayServer(
                self._config.container_uuid, self._session.gateway_key, self.engine, self._say
            )
            self._server = server
            await server.start(self._socket)
        # A failure of the gateway does not end the container.
        except (LadingError, OSError, ImportError) as error:
            # Sessions fail; the container does not depend on them.
            _logger.error("container=%s gateway: %s", self._config.container_uuid, error)

    async def _reach_out(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(asyncio.CancelledError):
            # A short container needs no tunnel.
            await asyncio.sleep(self._config.tunnel_delay)
            module = await _load(_MODULES[1])
            port = self._socket.getsockname()[1]
            await module.keep_tunnel(self._config, self._session, port, self._say)


def own_address(config: SupervisorConfig) -> str:
    """The address of this machine from which its calls reach the server; "" where that is not
    known, or the server is on this machine.
    """
    if config.api_socket:
        return ""
    server = urlsplit(config.api_url)
    try:
        found = socket.getaddrinfo(server.hostname, server.port or 443, type=socket.SOCK_DGRAM)
        family, kind, _, _, place = found[0]
        with socket.socket(family, kind | socket.SOCK_CLOEXEC) as probe:
            # Of datagrams: this chooses the way, and sends nothing.
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


async def _load(name: str) -> Any:
    return await asyncio.to_thread(importlib.import_module, name)


def _listen(host: str, address: str) -> socket.socket:
    """A socket on an address of this machine, or on all addresses when `host` is only its address
    for others (behind NAT).
    """
    number = address.rpartition(":")[2]
    port = int(number) if number.isdigit() else 0
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(
        family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    )
    try:
        try:
            listener.bind((host, port))
        except OSError:
            if host == _LOOPBACK:
                raise
            everywhere = "::" if family == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 - see above
            listener.bind((everywhere, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


# Imported in the functions: few containers offer an address, and each start waits for an import.
def _is_loopback(host: str) -> bool:
    from lading.core.containers.sessions import is_loopback

    return is_loopback(host)


def _offer(address: str) -> str:
    from lading.core.containers.sessions import offer

    return offer(address)

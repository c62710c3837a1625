"""A uvicorn server with limits of connections, and without signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import resource
import socket
from collections.abc import (
    Iterator,
)
from typing import Any, cast

import uvicorn

from lading.api.http import STRANGER_BODY
from lading.config.site import Config
from lading.core.protocols.connection_limits import Connection, ConnectionTable, HttpLimits
from lading.core.resources import KIB
from lading.net.acceptor import Acceptor, FindUser, Peer

# Largest head of a request, in bytes; a larger one is answered with 431.
_HEAD_BYTES = 64 * KIB
# Descriptors per counted connection: a session, or a request to a port of a container, has one from
# the client, which is counted, and one to the container; a request to the page or for files has two
# of the local socket; blocks and uploads have a file.
_OF_FILES = 4
# Users who hold all connections together, at least.
_OF_USERS = 4


def make_limits(config: Config) -> HttpLimits:
    """The limits from the configuration and from the number of files that this process may open."""
    api = config.API
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = (
        api.MaxConnections
        if files == resource.RLIM_INFINITY
        # A part of the limit of open files: the server must be able to serve each connection.
        else min(api.MaxConnections, files // _OF_FILES)
    )
    return HttpLimits(
        head_bytes=_HEAD_BYTES,
        head_seconds=api.RequestHeadTimeout,
        idle_seconds=api.IdleConnectionTimeout,
        connections=most,
        connections_per_address=api.MaxConnectionsPerAddress,
        connections_per_user=min(api.MaxConnectionsPerUser, max(1, most // _OF_USERS)),
        trusted=(*api.TrustedAddresses, *api.TrustedProxies),
        stranger_body_bytes=STRANGER_BODY,
    )


class LimitedServer(uvicorn.Server):
    """A uvicorn server with an acceptor, a signal of readiness, and no signal handlers: the caller
    stops two servers.

    Its `http` protocol must be a `ReceivingProtocol`. `table` may be shared with other servers.
    """

    def __init__(
        self, config: uvicorn.Config, table: ConnectionTable, *, find_user: FindUser | None = None
    ) -> None:
        super().__init__(config)
        self._find_user = find_user
        self._table = table
        self.serving = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at `sockets` through the acceptor. Replaces uvicorn's method, which limits
        nothing.
        """
        await self.lifespan.startup()
        acceptor = Acceptor(self._table, self._make, context=self.config.ssl)
        self._acceptor = acceptor
        acceptor.listen(sockets or [])
        # uvicorn closes these at shutdown; the acceptor has the methods that it calls.
        self.servers = cast("list[asyncio.base_events.Server]", [acceptor])
        self.started = True
        self.serving.set()

    def _make(self, connection: Connection) -> asyncio.Protocol:
        kind = cast(Any, self.config.http_protocol_class)
        protocol = kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        acceptor = self._acceptor
        leave, abort = (
            functools.partial(action, connection) for action in (acceptor.release, acceptor.drop)
        )
        protocol.admitted_as(Peer(self._table, connection, leave, abort, self._find_user))
        return cast(asyncio.Protocol, protocol)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield

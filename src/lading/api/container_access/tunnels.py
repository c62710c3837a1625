"""Tunnels that gateways have opened to this server: one for each container, the latest.

A gateway opens its tunnel soon after its container has started, and again when this server was
restarted; a session that comes earlier waits for the tunnel for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib

from lading.core.errors import Unavailable
from lading.net.pipes import Pipe
from lading.net.tunnel import Tunnel

# Tunnels of one server, each a connection with its file descriptor.
MOST = 4096
PATIENCE = 3.0


class Tunnels:
    """The open tunnels, by container uuid."""

    def __init__(self, *, most: int = MOST, patience: float = PATIENCE) -> None:
        self._most = most
        self.patience = patience
        self._open: dict[str, Tunnel] = {}
        self._awaited: dict[str, list[asyncio.Event]] = {}

    async def serve(self, uuid: str, pipe: Pipe) -> None:
        """Keep a tunnel until it ends; an earlier one of the same container is closed."""
        earlier = self._open.get(uuid)
        mine = self._open[uuid] = Tunnel(pipe, connected=False)
        for one in self._awaited.get(uuid, ()):
            one.set()
        if earlier is not None:
            await earlier.close()
        try:
            await mine.run()
        finally:
            if self._open.get(uuid) is mine:
                del self._open[uuid]

    def check_room(self, uuid: str) -> None:
        """Check the number of tunnels. Raises Unavailable when there are too many."""
        if uuid not in self._open and len(self._open) >= self._most:
            raise Unavailable(
                f"there are {self._most} tunnels to containers, "
                "as many as API.MaxGatewayTunnels allows; try again"
            )

    def has(self, uuid: str) -> bool:
        """Whether the container has a tunnel."""
        return uuid in self._open

    async def open(self, uuid: str) -> Pipe:
        """A connection to the gateway of a container. Raises Unavailable when no tunnel is opened
        in time.
        """
        if uuid not in self._open:
            await self._wait(uuid)
        tunnel = self._open.get(uuid)
        if tunnel is None:
            raise Unavailable("the tunnel to the container is down; try again in a moment")
        return await tunnel.open()

    async def _wait(self, uuid: str) -> None:
        coming = asyncio.Event()
        waiting = self._awaited.setdefault(uuid, [])
        waiting.append(coming)
        try:
            # None came in time; the caller raises the error.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(coming.wait(), self.patience)
        finally:
            waiting.remove(coming)
            if not waiting:
                del self._awaited[uuid]

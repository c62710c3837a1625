"""The supervisors of running containers: their kinds and keys, and the tunnels of their gateways.

- `Supervisors`: learned when a supervisor reports that its container runs, or opens its tunnel; the
  kind determines where a live log is.
- `Tunnels`: the latest tunnel of each container's gateway. A gateway opens its tunnel soon after
  its container has started, and again when this server was restarted; a session that comes earlier
  waits for the tunnel for a moment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.core.containers.writers import Role
from lading.core.errors import Unavailable
from lading.net.pipes import Pipe
from lading.net.tunnel import Tunnel
from lading.process.concurrency import wait_at_most

# More than the containers that one server is likely to have running. A supervisor that is dropped
# is asked again (`container_access.log_streaming`).
MOST_SUPERVISORS: Final = 16384
# Tunnels of one server, each a connection with its file descriptor.
MOST = 4096
# Seconds that a session waits for a tunnel: when one breaks, the first attempts of the supervisor
# come after 0.5 and 1 s.
PATIENCE = 3.0


class SupervisorKind(Enum):
    """LADING posts its log to the server. ARVADOS, which is crunch-run, serves its log at its
    gateway.
    """

    LADING = "lading"
    ARVADOS = "arvados"


@dataclass(frozen=True, slots=True)
class KnownSupervisor:
    """Kind and key of one supervisor.

    `key` is the key that the gateway of a crunch-run shares with the server if it does not follow
    from the root token: Arvados' dispatchers derive it from their own token.
    """

    kind: SupervisorKind
    key: str = ""


class Supervisors:
    """Supervisors by container and lock count: a container that is locked again has another
    supervisor.

    Of more than `most` containers, those noted first are dropped.
    """

    def __init__(self, *, most: int = MOST_SUPERVISORS) -> None:
        self._most = most
        self._supervisors: dict[tuple[str, int], KnownSupervisor] = {}

    def find(self, container: Container) -> KnownSupervisor | None:
        """The container's present supervisor, or None if it has not reported to this server."""
        return self._supervisors.get((container.uuid, container.lock_count))

    def note_writer(self, container: Container, role: Role, token: str) -> None:
        """Note the supervisor that reported with `token`: crunch-run has the token of its
        dispatcher, a supervisor of Lading a token of its own.
        """
        if role is Role.SUPERVISOR:
            self.note(container, SupervisorKind.LADING)
        elif role is Role.HOLDER:
            self.note(
                container, SupervisorKind.ARVADOS, key=sessions.container_key(token, container.uuid)
            )

    def note(self, container: Container, kind: SupervisorKind, *, key: str = "") -> None:
        """Note the container's present supervisor. An earlier key stays unless a new one is
        given.
        """
        earlier = self.find(container)
        self._supervisors[container.uuid, container.lock_count] = KnownSupervisor(
            kind, key or (earlier.key if earlier is not None else "")
        )
        while len(self._supervisors) > self._most:
            del self._supervisors[next(iter(self._supervisors))]


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
        for event in self._awaited.get(uuid, ()):
            event.set()
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
            await wait_at_most(coming, self.patience)
        finally:
            waiting.remove(coming)
            if not waiting:
                del self._awaited[uuid]

"""Kinds and keys of the supervisors of containers; the kind says where a live log is.

The server learns them when a supervisor reports that its container runs, or opens its tunnel, and
keeps them in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.core.containers.lifecycle import Role

# More than the containers that one server is likely to have running. A supervisor that is dropped
# is asked again (`container_logs.gateway_logs`).
MOST: Final = 16384


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

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._known: dict[tuple[str, int], KnownSupervisor] = {}

    def find(self, container: Container) -> KnownSupervisor | None:
        """The container's present supervisor; None if the server has not heard of it."""
        return self._known.get((container.uuid, container.lock_count))

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
        self._known[container.uuid, container.lock_count] = KnownSupervisor(
            kind, key or (earlier.key if earlier is not None else "")
        )
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]

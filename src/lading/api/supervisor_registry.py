"""What a server knows about the supervisors of containers: their kind, which says where the live
log is, and a key.

It is heard when a supervisor reports that its container runs, or brings its tunnel, and is kept in
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.core.containers.write_permissions import Role

MOST: Final = 16384


class SupervisorKind(Enum):
    """LADING posts its log to the server; ARVADOS, which is crunch-run, has the server ask its
    gateway.
    """

    LADING = "lading"
    ARVADOS = "arvados"


@dataclass(frozen=True, slots=True)
class KnownSupervisor:
    """`key` is what the gateway of a crunch-run shares with the server if that does not follow from
    the root token.

    Arvados' dispatchers derive it from the token that they work with.
    """

    kind: SupervisorKind
    key: str = ""


class Supervisors:
    """What is known, by container and lock: a container that is locked again has another
    supervisor.

    Of more than `most` containers the ones noted first are forgotten.
    """

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._known: dict[tuple[str, int], KnownSupervisor] = {}

    def find(self, container: Container) -> KnownSupervisor | None:
        """What is known of the container's present supervisor; None when it was not heard."""
        return self._known.get((container.uuid, container.lock_count))

    def note_writer(self, container: Container, role: Role, token: str) -> None:
        """A supervisor reported with `token`: crunch-run has the token of its dispatcher, ours a
        token of its own.
        """
        if role is Role.SUPERVISOR:
            self.note(container, SupervisorKind.LADING)
        elif role is Role.HOLDER:
            self.note(
                container, SupervisorKind.ARVADOS, key=sessions.container_key(token, container.uuid)
            )

    def note(self, container: Container, kind: SupervisorKind, *, key: str = "") -> None:
        """Remember the container's present supervisor; a key that is known already stays unless
        there is another.
        """
        earlier = self.find(container)
        self._known[container.uuid, container.lock_count] = KnownSupervisor(
            kind, key or (earlier.key if earlier is not None else "")
        )
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]

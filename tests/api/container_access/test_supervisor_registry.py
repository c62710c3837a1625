"""What a server remembers of the supervisors that it hears."""

from __future__ import annotations

from lading.api.container_access.supervisor_registry import (
    KnownSupervisor,
    SupervisorKind,
    Supervisors,
)
from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.core.containers.writers import Role


def container(number: int = 1, lock_count: int = 1) -> Container:
    return Container.from_record({"uuid": f"zzzzz-dz642-{number:015}", "lock_count": lock_count})


def test_a_supervisor_is_known_by_its_token_until_the_container_is_locked_again() -> None:
    known = Supervisors()
    for role in (Role.OWN, Role.ADMIN, Role.OTHER):
        known.note_writer(container(), role, "token")
    assert known.find(container()) is None
    known.note_writer(container(), Role.HOLDER, "token")
    key = sessions.container_key("token", container().uuid)
    assert known.find(container()) == KnownSupervisor(SupervisorKind.ARVADOS, key)
    known.note(container(), SupervisorKind.LADING)
    assert known.find(container()) == KnownSupervisor(SupervisorKind.LADING, key)
    assert known.find(container(lock_count=2)) is None
    known.note_writer(container(lock_count=2), Role.SUPERVISOR, "token")
    assert known.find(container(lock_count=2)) == KnownSupervisor(SupervisorKind.LADING)


def test_the_oldest_are_forgotten() -> None:
    known = Supervisors(most=2)
    for number in range(3):
        known.note(container(number), SupervisorKind.ARVADOS)
    assert [known.find(container(number)) is None for number in range(3)] == [True, False, False]

"""What must hold after each step of a scenario, whatever goes wrong.

The invariants are written out here once more, from the contracts and not by the functions of `core`: a fault in a
decision of the product must not hide itself. `Invariants.look` checks the changes since the last look; `begin` is told
of each command before it starts. Both raise `Broken` with the name of the invariant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Protocol

from lading.core.container import Container
from lading.core.manifest import portable_data_hash
from lading.core.request import ContainerRequest
from lading.testing.simulation.host import Command, Supervisor
from lading.testing.simulation.server import content_of
from lading.testing.simulation.tables import (
    DISPATCHER_TOKENS,
    ContainerWrite,
    RecordTables,
    uuid_of,
)


class Invariant(StrEnum):
    """The invariants, by name."""

    ONE_COMMAND = "one command"
    """At most one command of a container lives, on all hosts together, and at most one was ever started."""
    FENCED = "fenced"
    """A command starts only while its container is Running by the token of its own lock."""
    STATES = "states"
    """Containers and requests change their states only as the tables here say; what is final stays so."""
    ONE_LOCKER = "one locker"
    """A lock passes from one dispatcher to another by way of the queue only, and each lock counts."""
    WRITERS = "writers"
    """A locked or running container is written to by its locker, its supervisor and its own token only."""
    TOKENS = "tokens"
    """A container's tokens live exactly as long as its lock."""
    RESULT = "result"
    """A Complete container has the exit code, output, log and end of a command of its own that ran to its end."""
    ATTEMPTS = "attempts"
    """A request has at most container_count_max containers; a lost one is tried again while that allows it."""
    OPEN = "open requests"
    """A request is Committed while its container is under way and Final afterwards, and each container has one."""
    REUSE = "reuse"
    """A request is given an existing container only if that runs the same, or ran the same with success."""
    CHILDREN = "children"
    """No request is wanted that was made by a container that has ended."""
    PRIORITY = "priority"
    """The priority of a container is that of its requests, or of the containers that made them."""
    GIVEN_BACK = "given back"
    """Nobody gives back a container whose supervisor lives, but the supervisor."""
    STOPPED = "stopped"
    """A command that nobody wants, or whose container is lost, ends in bounded time while its dispatcher is up."""
    FORWARDS = "forwards"
    """What a dispatcher knows of a record that has run never goes back."""
    END = "end"
    """Left in peace, every request becomes Final; no process, directory or note of one is left; all room is free."""


class Broken(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"[{invariant}] {what}")
        self.invariant = invariant


class Machine(Protocol):
    """What the invariants look at of a host."""

    name: str
    runs: dict[str, Supervisor]

    def runs_command(self, uuid: str) -> bool:
        """Whether a command of this container lives here."""
        ...

    def commands(self) -> list[Command]:
        """The living commands that the host knows of."""
        ...


STOP_SECONDS: Final = 500.0
STOP_STEPS: Final = 400
"""How long, and for how many steps, an unwanted command may live on while its dispatcher is up."""
_LONGEST_STEP: Final = 10.0
_LIVE: Final = frozenset({"Queued", "Locked", "Running"})
_HELD: Final = frozenset({"Locked", "Running"})
_NEXT: Final[Mapping[str, Collection[str]]] = MappingProxyType(
    {
        "": {"Queued"},
        "Queued": {"Locked", "Cancelled"},
        "Locked": {"Queued", "Running", "Cancelled"},
        "Running": {"Complete", "Cancelled"},
        "Complete": set(),
        "Cancelled": set(),
    }
)
"""Complete -> Cancelled, which a person may ask for, is asked for by nobody here."""
_NEXT_REQUEST: Final[Mapping[str, Collection[str]]] = MappingProxyType(
    {"": {"Committed", "Final"}, "Committed": {"Committed", "Final"}, "Final": set()}
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Invariants:
    """All of them, with what they remember. `are_twins`: both dispatchers use one token."""

    def __init__(self, records: RecordTables, machines: Sequence[Machine], *, are_twins: bool = False) -> None:
        self._records = records
        self._machines = machines
        self._are_twins = are_twins
        self._containers: dict[str, Container] = {}
        self._requests: dict[str, ContainerRequest] = {}
        self._tokens: set[str] = set()
        self._pointed: dict[str, dict[str, None]] = {}
        self._begun: dict[str, Command] = {}
        self._unwanted: dict[Command, tuple[float, int]] = {}
        self._known: dict[tuple[int, str], int] = {}
        self._now = 0.0

    def begin(self, machine: Machine, command: Command) -> None:
        """A command is about to start."""
        uuid = command.uuid
        record = self._records.containers[uuid]
        for one in self._machines:
            if one.runs_command(uuid):
                raise Broken(
                    Invariant.ONE_COMMAND,
                    f"{uuid} runs on {one.name} and is started on {machine.name}",
                )
        if uuid in self._begun:
            raise Broken(
                Invariant.ONE_COMMAND,
                f"{uuid} has run already and is started again on {machine.name}",
            )
        holder = uuid_of(command.token)
        # A record that has left Running meanwhile ends the command by other ways.
        if record.state == "Running" and record.supervisor_auth_uuid != holder:
            raise Broken(
                Invariant.FENCED,
                f"{uuid} is started on {machine.name} by a supervisor that has lost it",
            )
        if record.state in ("Queued", "Locked"):
            raise Broken(Invariant.FENCED, f"{uuid} is started on {machine.name} while it is {record.state}")
        self._begun[uuid] = command

    def look(self, now: float, up: Collection[str]) -> None:
        """Check what has changed; `now` is seconds, `up` the machines whose dispatcher runs."""
        records = self._records
        containers = [one for uuid, one in records.containers.items() if one is not self._containers.get(uuid)]
        requests = [one for uuid, one in records.requests.items() if one is not self._requests.get(uuid)]
        for write in records.writes:
            self._check_writer(write)
        records.writes.clear()
        for one in containers:
            self._check_container(self._containers.get(one.uuid), one)
        for subject in requests:
            self._check_request(self._requests.get(subject.uuid), subject)
        if containers or records.tokens.keys() != self._tokens:
            self._check_tokens()
        if containers or requests:
            self._check_together()
        self._containers |= {one.uuid: one for one in containers}
        self._requests |= {one.uuid: one for one in requests}
        self._check_commands(now, up)

    def look_at_queue(self, name: str, queue: Any) -> None:
        """Check what the dispatcher of this name knows."""
        seen: dict[tuple[int, str], int] = {}
        for table in (queue.waiting, queue.others):
            for uuid, record in table.items():
                rank = _rank(record.state)
                key = (id(queue), uuid)
                if record.state is not None and rank < self._known.get(key, 0):
                    raise Broken(Invariant.FORWARDS, f"{name} knew better of {uuid} than {record.state}")
                seen[key] = rank
        self._known = {key: rank for key, rank in self._known.items() if key[0] != id(queue)} | seen

    # Containers.

    def _check_writer(self, write: ContainerWrite) -> None:
        before = write.before
        holders = (before.locked_by_uuid, before.supervisor_auth_uuid, before.auth_uuid)
        if before.state in _HELD and write.token_uuid not in holders:
            raise Broken(
                Invariant.WRITERS,
                f"{before.uuid} was {before.state}, locked by {before.locked_by_uuid}, and {write.token_uuid} wrote",
            )
        if before.state == "Queued" and write.token_uuid not in DISPATCHER_TOKENS:
            raise Broken(Invariant.WRITERS, f"{before.uuid} was Queued, and {write.token_uuid} wrote")

    def _check_container(self, old: Container | None, new: Container) -> None:
        before = old.state.value if old is not None else ""
        if new.state.value != before and new.state.value not in _NEXT[before]:
            raise Broken(Invariant.STATES, f"{new.uuid} was {before or 'not there'} and is {new.state}")
        held = (new.locked_by_uuid, new.supervisor_auth_uuid)
        if (new.state in _HELD) != all(held) or (new.state not in _HELD and any(held)):
            raise Broken(Invariant.ONE_LOCKER, f"{new.uuid} is {new.state} with the lock {held}")
        if old is None:
            return
        if old.state in _HELD and new.state in _HELD and old.locked_by_uuid != new.locked_by_uuid:
            raise Broken(
                Invariant.ONE_LOCKER,
                f"the lock of {new.uuid} went from {old.locked_by_uuid} to {new.locked_by_uuid}",
            )
        locks = (old.state, new.state) == ("Queued", "Locked")
        if new.lock_count != old.lock_count + locks:
            raise Broken(
                Invariant.ONE_LOCKER,
                f"{new.uuid} had {old.lock_count} locks and has {new.lock_count}",
            )
        if old.state == "Locked" and new.state == "Queued" and not self._are_twins:
            self._check_given_back(new.uuid)
        if new.state == "Complete":
            self._check_result(new)
        if old.state not in _LIVE and old.exit_code != new.exit_code:
            raise Broken(
                Invariant.RESULT,
                f"{new.uuid} had the exit code {old.exit_code} and has {new.exit_code}",
            )

    def _check_given_back(self, uuid: str) -> None:
        for one in self._machines:
            supervisor = one.runs.get(uuid)
            if supervisor is not None and supervisor.alive and not supervisor.gave_back:
                raise Broken(
                    Invariant.GIVEN_BACK,
                    f"{uuid} was given back while its supervisor lives on {one.name}",
                )

    def _check_result(self, record: Container) -> None:
        command, uuid = self._begun.get(record.uuid), record.uuid
        if command is None or not command.done:
            raise Broken(Invariant.RESULT, f"{uuid} is Complete, but no command of it ran to its end")
        if command.lock != record.lock_count:
            raise Broken(Invariant.RESULT, f"{uuid} is Complete by a command of another lock")
        if record.output not in self._records.saved or record.log not in self._records.saved:
            raise Broken(Invariant.RESULT, f"{uuid} is Complete, but output or log is missing")
        if record.output != portable_data_hash(content_of(command.output)):
            raise Broken(Invariant.RESULT, f"{uuid} is Complete with the output of another command")
        if record.exit_code != command.exit_code:
            raise Broken(
                Invariant.RESULT,
                f"{uuid} ended with {command.exit_code}, and its record has {record.exit_code}",
            )
        if record.finished_at != max(command.ended_at, record.started_at or ""):
            raise Broken(
                Invariant.RESULT,
                f"{uuid} ended at {command.ended_at}, and not at {record.finished_at}",
            )

    def _check_tokens(self) -> None:
        alive = self._tokens = set(self._records.tokens)
        wanted = {
            uuid
            for one in self._records.containers.values()
            if one.state in _HELD
            for uuid in (one.auth_uuid, one.supervisor_auth_uuid)
            if uuid
        }
        if alive != wanted:
            named = ", ".join(
                f"{uuid} of {self._records.tokens.get(uuid, 'a lock')}" for uuid in sorted(alive ^ wanted)
            )
            verb = "outlives its lock" if alive - wanted else "died before its lock"
            raise Broken(Invariant.TOKENS, f"{named} {verb}")

    # Requests.

    def _check_request(self, old: ContainerRequest | None, new: ContainerRequest) -> None:
        before = old.state.value if old is not None else ""
        if new.state.value != before and new.state.value not in _NEXT_REQUEST[before]:
            raise Broken(Invariant.STATES, f"{new.uuid} was {before or 'not there'} and is {new.state}")
        pointed = self._pointed.setdefault(new.uuid, {})
        uuid = new.container_uuid or ""
        if old is not None and old.container_uuid != uuid and (before == "Final" or uuid in pointed):
            raise Broken(Invariant.ATTEMPTS, f"{new.uuid} went from {old.container_uuid} to {uuid}")
        is_new = uuid not in self._containers
        pointed[uuid] = None
        if len(pointed) != new.container_count or len(pointed) > max(new.container_count_max, 1):
            raise Broken(
                Invariant.ATTEMPTS,
                f"{new.uuid} has had {len(pointed)} containers, counts {new.container_count}, and may have "
                f"{new.container_count_max}",
            )
        if old is None and not is_new:
            self._check_reuse(new, self._containers[uuid])
        if old is not None and old.container_uuid != uuid and not is_new:
            raise Broken(Invariant.ATTEMPTS, f"{new.uuid} is tried again with the old container {uuid}")
        if before == "Committed" and new.state == "Final":
            self._check_final(new)

    def _check_reuse(self, subject: ContainerRequest, used: Container) -> None:
        if not subject.use_existing:
            raise Broken(Invariant.REUSE, f"{subject.uuid} wants a new container and was given {used.uuid}")
        if used.command != subject.command or used.runtime_constraints["vcpus"] != subject.runtime_constraints["vcpus"]:
            raise Broken(Invariant.REUSE, f"{subject.uuid} was given {used.uuid}, which runs something else")
        if used.state == "Cancelled" or (used.state == "Complete" and used.exit_code != 0):
            raise Broken(Invariant.REUSE, f"{subject.uuid} was given {used.uuid}, which has failed")

    def _check_final(self, new: ContainerRequest) -> None:
        record = self._records.containers[new.container_uuid or ""]
        if (new.priority or 0) <= 0:
            return
        if record.state in _LIVE:
            raise Broken(
                Invariant.OPEN,
                f"{new.uuid} is Final, and its container {record.uuid} is {record.state}",
            )
        parent = self._records.containers.get(new.requesting_container_uuid or "")
        goes_on = parent is None or (parent.state == "Running" and parent.priority > 0)
        if record.state == "Cancelled" and new.container_count < new.container_count_max and goes_on:
            raise Broken(
                Invariant.ATTEMPTS,
                f"{new.uuid} was given up after {new.container_count} of {new.container_count_max} containers",
            )

    # Both.

    def _check_together(self) -> None:
        containers = self._records.containers
        wanting: dict[str, list[ContainerRequest]] = {}
        for one in self._records.requests.values():
            if one.state == "Committed":
                wanting.setdefault(one.container_uuid or "", []).append(one)
                parent = containers.get(one.requesting_container_uuid or "")
                if parent is not None and parent.state not in _LIVE and (one.priority or 0) > 0:
                    raise Broken(
                        Invariant.CHILDREN,
                        f"{one.uuid} is wanted, and {parent.uuid}, which made it, has ended",
                    )
        for uuid, record in containers.items():
            if record.state in _LIVE:
                self._check_priority(record, wanting.get(uuid, ()))
            elif uuid in wanting:
                raise Broken(
                    Invariant.OPEN,
                    f"{wanting[uuid][0].uuid} is Committed, and its container {uuid} is {record.state}",
                )

    def _check_priority(self, record: Container, wanting: Iterable[ContainerRequest]) -> None:
        worth, has_one = 0, False
        for one in wanting:
            has_one = True
            value = one.priority or 0
            parent = self._records.containers.get(one.requesting_container_uuid or "")
            if value > 0:
                worth = max(
                    worth,
                    parent.priority if parent is not None else own_worth(value, one.created_at),
                )
        if not has_one:
            raise Broken(
                Invariant.OPEN,
                f"{record.uuid} is {record.state}, and no request is Committed for it",
            )
        if record.priority != worth:
            raise Broken(
                Invariant.PRIORITY,
                f"{record.uuid} has the priority {record.priority} and should have {worth}",
            )

    # Commands.

    def _check_commands(self, now: float, up: Collection[str]) -> None:
        passed, self._now = min(now - self._now, _LONGEST_STEP), now
        seen: dict[Command, tuple[float, int]] = {}
        for machine in self._machines:
            for command in machine.commands():
                if self._is_wanted(command):
                    continue
                seconds, steps = self._unwanted.get(command, (0.0, 0))
                if machine.name in up:
                    seconds, steps = seconds + passed, steps + 1
                if seconds > STOP_SECONDS and steps > STOP_STEPS:
                    raise Broken(
                        Invariant.STOPPED,
                        f"{command.uuid} is not wanted and runs on {machine.name} since {seconds:.0f} s",
                    )
                seen[command] = (seconds, steps)
        self._unwanted = seen

    def _is_wanted(self, command: Command) -> bool:
        record = self._records.containers[command.uuid]
        holds = record.supervisor_auth_uuid == uuid_of(command.token)
        return record.state in _HELD and record.priority > 0 and holds


@lru_cache(4096)
def own_worth(priority: int, created_at: str) -> int:
    """What a user's request is worth: its priority first, then its age in milliseconds."""
    made = datetime.fromisoformat(created_at[:26]).replace(tzinfo=UTC)
    return priority * 2**50 - ((made - _EPOCH) // timedelta(microseconds=1) + 500) // 1000


def _rank(state: Any) -> int:
    """How far a record has come: 1 once it runs, 2 once it has ended."""
    if state is None or state in ("Queued", "Locked"):
        return 0
    return 1 if state == "Running" else 2

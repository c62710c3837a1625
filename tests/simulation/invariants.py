"""The invariants that hold after each step of a scenario, whatever fails.

They are written from the contracts and do not call the functions of `core`, so that a fault in a
decision of the product does not hide itself. `Invariants.look` checks the changes since the last
look; `begin` checks a command before it starts. Both raise `Broken` with the invariant's name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from lading.core.containers.container import Container
from lading.core.containers.request import ContainerRequest
from lading.core.data.manifest import portable_data_hash
from tests.simulation import retries
from tests.simulation.host import Command, Supervisor
from tests.simulation.server import content_of
from tests.simulation.tables import (
    DISPATCHER_TOKENS,
    ContainerWrite,
    RecordTables,
    uuid_of,
)


class Invariant(StrEnum):
    """The invariants, by name."""

    ONE_COMMAND = "one command"
    """A container has at most one living command on all hosts, and at most one start of it ever."""
    FENCED = "fenced"
    """A command starts only while its container is Running by the token of its own lock."""
    STATES = "states"
    """Containers and requests change their states only as the tables here say."""
    ONE_LOCKER = "one locker"
    """A lock passes between dispatchers only by way of the queue, and each lock is counted."""
    WRITERS = "writers"
    """Only its locker, its supervisor and its own token write to a Locked or Running container."""
    TOKENS = "tokens"
    """The tokens of a container live exactly as long as its lock."""
    RESULT = "result"
    """A Complete container has the exit code, output, log and end of a command that was done."""
    ATTEMPTS = "attempts"
    """A request has at most container_count_max containers, and as many while attempts are lost."""
    OPEN = "open requests"
    """A request is Committed until its container ends; a live container has such a request."""
    REUSE = "reuse"
    """A request shares only a container with its command that is live or had success."""
    CHILDREN = "children"
    """No request has a priority whose requesting container has ended."""
    PRIORITY = "priority"
    """The priority of a live container follows from its requests and their containers."""
    PARALLEL = "parallel"
    """Of a group as many containers may run as its limit says, not more, and not fewer if more
    wait.
    """
    QUOTA = "quota"
    """What becomes Locked keeps every quota of its requests."""
    ROOM = "room"
    """No request waits that has room in its quotas, and before which no other one waits there."""
    COST = "cost"
    """A request costs what the containers that it had, and their requests, have cost."""
    GIVEN_BACK = "given back"
    """A dispatcher neither unlocks nor cancels a container whose supervisor lives.

    Except one that a dispatcher before it had sent for, and that came after the look: nobody can
    know of it. Its token ends with the lock, so that it begins no command (`WRITERS`, `TOKENS`).
    """
    STOPPED = "stopped"
    """An unwanted or lost command ends in bounded time while its dispatcher is up."""
    FORWARDS = "forwards"
    """A dispatcher's knowledge of a record that has run never goes back."""
    END = "end"
    """Without faults all requests become Final, nothing of them is left, and all room is free."""


class Broken(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"[{invariant}] {what}")
        self.invariant = invariant


class Machine(Protocol):
    """The part of a host that the invariants read."""

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
"""An unwanted command may live for so long, and so many steps, while its dispatcher is up."""
_LONGEST_STEP: Final = 10.0
_CENT: Final = 0.01
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
"""Only people change Complete to Cancelled, and nobody does here."""
_NEXT_REQUEST: Final[Mapping[str, Collection[str]]] = MappingProxyType(
    {"": {"Committed", "Final"}, "Committed": {"Committed", "Final"}, "Final": set()}
)
_UNLOCKED: Final = (0, set[str](), set[str]())
_Value = TypeVar("_Value")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Invariants:
    """All invariants, with the records of the last look.

    `are_twins`: both dispatchers use one token.
    """

    def __init__(
        self,
        records: RecordTables,
        machines: Sequence[Machine],
        *,
        are_twins: bool = False,
    ) -> None:
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
        # Of each Locked or Running container the lock, and the subjects that it is charged to.
        self._locks: dict[str, tuple[int, set[str], set[str]]] = {}
        self._spent: dict[str, float] = {}
        self._costs: dict[str, float] = {}

    def begin(self, machine: Machine, command: Command) -> None:
        """Check a command before it starts."""
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
        # A container that has left Running since the supervisor reported it is stopped later.
        if record.state == "Running" and record.supervisor_auth_uuid != holder:
            raise Broken(
                Invariant.FENCED,
                f"{uuid} is started on {machine.name} by a supervisor that has lost it",
            )
        if record.state in ("Queued", "Locked"):
            what = f"{uuid} is started on {machine.name} while it is {record.state}"
            raise Broken(Invariant.FENCED, what)
        self._begun[uuid] = command

    def look(self, now: float, up: Collection[str]) -> None:
        """Check all changes. `now` is seconds, `up` the machines whose dispatcher runs."""
        records = self._records
        containers = _changed(self._containers, records.containers)
        requests = _changed(self._requests, records.requests)
        for write in records.writes:
            self._check_writer(write)
            self._check_given_back(write)
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
        """Check the queue of the dispatcher `name`."""
        seen: dict[tuple[int, str], int] = {}
        for table in (queue.waiting, queue.others):
            for uuid, record in table.items():
                rank = _rank(record.state)
                key = (id(queue), uuid)
                if record.state is not None and rank < self._known.get(key, 0):
                    what = f"{name} knew a later state of {uuid} than {record.state}"
                    raise Broken(Invariant.FORWARDS, what)
                seen[key] = rank
        others = {key: rank for key, rank in self._known.items() if key[0] != id(queue)}
        self._known = others | seen

    # Containers.

    def _check_writer(self, write: ContainerWrite) -> None:
        before = write.before
        holders = (before.locked_by_uuid, before.supervisor_auth_uuid, before.auth_uuid)
        may_write = holders if before.state in _HELD else DISPATCHER_TOKENS
        if write.token_uuid not in may_write:
            what = f"{before.uuid} was {before.state}, locked by {before.locked_by_uuid}"
            raise Broken(Invariant.WRITERS, f"{what}, and {write.token_uuid} wrote to it")

    def _check_container(self, old: Container | None, new: Container) -> None:
        before = old.state.value if old is not None else ""
        if new.state.value != before and new.state.value not in _NEXT[before]:
            # By a lock that names its image it is Locked and Running in one step.
            is_locked = old is not None and new.lock_count == old.lock_count + 1
            if (before, new.state.value) != ("Queued", "Running") or not is_locked:
                what = f"{new.uuid} was {before or 'not there'} and is {new.state}"
                raise Broken(Invariant.STATES, what)
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
        locks = old.state == "Queued" and new.state in _HELD
        if new.lock_count != old.lock_count + locks:
            raise Broken(
                Invariant.ONE_LOCKER,
                f"{new.uuid} had {old.lock_count} locks and has {new.lock_count}",
            )
        if new.state == "Complete":
            self._check_result(new)
        if old.state not in _LIVE and old.exit_code != new.exit_code:
            raise Broken(
                Invariant.RESULT,
                f"{new.uuid} had the exit code {old.exit_code} and has {new.exit_code}",
            )

    def _check_given_back(self, write: ContainerWrite) -> None:
        uuid, before = write.before.uuid, write.before.state
        state = self._records.containers[uuid].state
        is_dispatcher = write.token_uuid in DISPATCHER_TOKENS and not self._are_twins
        if not is_dispatcher or before not in _HELD or state not in ("Queued", "Cancelled"):
            return
        for one in self._machines:
            supervisor = one.runs.get(uuid)
            if supervisor is not None and supervisor.alive and not supervisor.late:
                what = f"a dispatcher made {uuid} {state}, and its supervisor lives on {one.name}"
                raise Broken(Invariant.GIVEN_BACK, what)

    def _check_result(self, record: Container) -> None:
        command, uuid = self._begun.get(record.uuid), record.uuid
        if command is None or not command.done:
            raise Broken(Invariant.RESULT, f"{uuid} is Complete, and no command of it was done")
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
            odd = sorted(alive ^ wanted)
            how = "outlives its lock" if alive - wanted else "ended before its lock"
            of = self._records.tokens.get(odd[0], "a container")
            raise Broken(Invariant.TOKENS, f"the token {odd[0]} of {of} {how}")

    # Requests.

    def _check_request(self, old: ContainerRequest | None, new: ContainerRequest) -> None:
        before = old.state.value if old is not None else ""
        if new.state.value != before and new.state.value not in _NEXT_REQUEST[before]:
            what = f"{new.uuid} was {before or 'not there'} and is {new.state}"
            raise Broken(Invariant.STATES, what)
        pointed = self._pointed.setdefault(new.uuid, {})
        uuid = new.container_uuid or ""
        moves = old is not None and old.container_uuid != uuid
        used = self._containers.get(uuid)
        if moves and (before == "Final" or used is not None):
            what = f"{new.uuid} was given {uuid}, which is not a new container of a retry"
            raise Broken(Invariant.ATTEMPTS, what)
        if moves and old is not None and (what := retries.excess(old, pointed, self._records)):
            raise Broken(Invariant.ATTEMPTS, what)
        pointed[uuid] = None
        had, counted, most = len(pointed), new.container_count, new.container_count_max
        if had != counted or had > max(most, 1):
            what = f"{new.uuid} has had {had} containers, counts {counted}, may have {most}"
            raise Broken(Invariant.ATTEMPTS, what)
        if old is None and used is not None:
            self._check_reuse(new, used)
        if before == "Committed" and new.state == "Final":
            self._check_final(new)

    def _check_reuse(self, subject: ContainerRequest, used: Container) -> None:
        what = f"{subject.uuid} was given {used.uuid}"
        if not subject.use_existing:
            raise Broken(Invariant.REUSE, f"{what}, and asks for a new container")
        ours, theirs = subject.runtime_constraints, used.runtime_constraints
        # The size of a container that succeeded does not count.
        succeeded = used.state == "Complete" and used.exit_code == 0
        fits = succeeded or ours["vcpus"] == theirs["vcpus"]
        if subject.command != used.command or not fits:
            raise Broken(Invariant.REUSE, f"{what}, which has another command or size")
        if used.state == "Cancelled" or (used.state == "Complete" and used.exit_code != 0):
            raise Broken(Invariant.REUSE, f"{what}, which has failed")

    def _check_final(self, new: ContainerRequest) -> None:
        record = self._records.containers[new.container_uuid or ""]
        self._check_cost(new)
        if (new.priority or 0) <= 0:
            return
        if record.state in _LIVE:
            what = f"{new.uuid} is Final, and its container {record.uuid} is {record.state}"
            raise Broken(Invariant.OPEN, what)
        parent = self._records.containers.get(new.requesting_container_uuid or "")
        goes_on = parent is None or (parent.state == "Running" and parent.priority > 0)
        had, most = new.container_count, new.container_count_max
        has_more = retries.may_have_more(new, record, self._pointed[new.uuid], self._records)
        if has_more and had < most and goes_on:
            what = f"{new.uuid} was given up after {had} of {most} containers"
            raise Broken(Invariant.ATTEMPTS, what)

    def _check_cost(self, new: ContainerRequest) -> None:
        had = [self._records.containers[uuid] for uuid in self._pointed[new.uuid]]
        cost = sum(one.cost + one.subrequests_cost for one in had if one.state not in _LIVE)
        if abs(new.cumulative_cost - cost) > _CENT / 100:
            what = f"{new.uuid} costs {new.cumulative_cost}, and its containers have cost {cost}"
            raise Broken(Invariant.COST, what)

    # Both.

    def _check_together(self) -> None:
        containers = self._records.containers
        wanting: dict[str, list[ContainerRequest]] = {}
        for one in self._records.requests.values():
            if one.state == "Committed":
                wanting.setdefault(one.container_uuid or "", []).append(one)
                parent = containers.get(one.requesting_container_uuid or "")
                if parent is not None and parent.state not in _LIVE and (one.priority or 0) > 0:
                    what = f"{one.uuid} has a priority, and {parent.uuid}, which made it, has ended"
                    raise Broken(Invariant.CHILDREN, what)
        self._check_groups()
        self._check_quotas(wanting)
        for uuid, record in containers.items():
            if record.state in _LIVE:
                self._check_priority(record, wanting.get(uuid, ()))
            elif uuid in wanting:
                what = f"{wanting[uuid][0].uuid} is Committed, and {uuid} is {record.state}"
                raise Broken(Invariant.OPEN, what)

    def _check_groups(self) -> None:
        """Of the groups; no request beside the group shares a container with it."""
        groups: dict[tuple[str | None, str | None], list[ContainerRequest]] = {}
        for one in self._records.requests.values():
            if one.state == "Committed" and one.max_parallel:
                groups.setdefault((one.committed_by_uuid, one.parallel_group), []).append(one)
        for (_, name), members in groups.items():
            records = {
                one.container_uuid: self._records.containers[one.container_uuid or ""]
                for one in members
            }
            taken = {
                uuid
                for uuid, one in records.items()
                if one.state in _HELD or (one.state == "Queued" and one.priority > 0)
            }
            # One in its turn may have no room in a quota, see `_check_quotas`.
            waits = any(
                one.container_uuid not in taken and (one.priority or 0) > 0 for one in members
            ) and not any(self._quotas_of(one) for one in members)
            most = members[0].max_parallel
            if len(taken) > most or (waits and len(taken) < most):
                what = f"{len(taken)} containers of {name} may run, and {most} should"
                raise Broken(Invariant.PARALLEL, what)

    def _check_priority(self, record: Container, wanting: Iterable[ContainerRequest]) -> None:
        worth, has_one = 0, False
        wanting = list(wanting)
        if record.priority == 0 and any(one.max_parallel for one in wanting):
            return  # It may not be its turn, see `_check_groups`.
        limited = any(self._quotas_of(one) for one in wanting)
        worths = {0} if limited else set[int]()
        for one in wanting:
            has_one = True
            value = one.priority or 0
            parent = self._records.containers.get(one.requesting_container_uuid or "")
            if value > 0:
                own = own_worth(value, one.created_at)
                worth = max(worth, own if parent is None else parent.priority)
                worths.add(own if parent is None else parent.priority)
        if not has_one:
            what = f"{record.uuid} is {record.state}, and no request is Committed for it"
            raise Broken(Invariant.OPEN, what)
        # With quotas some of its requests may wait, see `_check_quotas`.
        if record.priority != worth and not (limited and record.priority in worths):
            what = f"{record.uuid} has the priority {record.priority} and should have {worth}"
            raise Broken(Invariant.PRIORITY, what)

    def _quotas_of(self, one: ContainerRequest) -> list[str]:
        """The subjects of the quotas that concern a request."""
        quotas = self._records.quotas
        return [uuid for uuid in (one.committed_by_uuid or "", one.owner_uuid) if uuid in quotas]

    def _check_quotas(self, wanting: Mapping[str, Sequence[ContainerRequest]]) -> None:
        containers = self._records.containers
        held = {uuid: one.lock_count for uuid, one in containers.items() if one.state in _HELD}
        for uuid, count in held.items():
            if self._locks.get(uuid, _UNLOCKED)[0] == count:
                continue
            asking = [one for one in wanting.get(uuid, ()) if (one.priority or 0) > 0]
            found = [{one.committed_by_uuid or "", one.owner_uuid} for one in asking]
            # Charged for certain to what concerns all of the requests, perhaps to any of them.
            surely = set.intersection(*found) if found else set[str]()
            self._locks[uuid] = (count, surely, set().union(*found))
            for subject in surely & self._records.quotas.keys():
                self._check_use(subject, uuid)
        for uuid in self._locks.keys() - held.keys():
            del self._locks[uuid]
        self._check_room(wanting)
        self._note_spending()

    def _note_spending(self) -> None:
        """Add what was spent for certain, for subjects that have a quota."""
        quotas, containers = self._records.quotas, self._records.containers
        self._spent = {uuid: self._spent.get(uuid, 0.0) for uuid in quotas}
        for uuid, (_, surely, _) in self._locks.items():
            more = containers[uuid].cost - self._costs.get(uuid, 0.0)
            for subject in surely & quotas.keys():
                self._spent[subject] += more
        self._costs = {uuid: containers[uuid].cost for uuid in self._locks}

    def _check_use(self, subject: str, locked: str) -> None:
        charged = [uuid for uuid, (_, surely, _) in self._locks.items() if subject in surely]
        if not self._fits(subject, charged):
            what = f"{locked} is locked beyond the quota of {subject}, beside {charged}"
            raise Broken(Invariant.QUOTA, what)
        budget = self._records.quotas[subject].money.budget
        if budget is not None and self._spent.get(subject, 0.0) > budget + _CENT / 100:
            what = f"{locked} is locked, and {subject} has spent its budget of {budget}"
            raise Broken(Invariant.QUOTA, what)

    def _fits(self, subject: str, uuids: Collection[str], *, parts: int = 1) -> bool:
        quota, containers = self._records.quotas[subject], self._records.containers
        sizes = (containers[uuid].runtime_constraints["vcpus"] for uuid in uuids)
        vcpus = sum(one for one in sizes if isinstance(one, int))
        fits = quota.containers is None or len(uuids) <= quota.containers // parts
        return fits and (quota.vcpus is None or vcpus <= quota.vcpus // parts)

    def _check_room(self, wanting: Mapping[str, Sequence[ContainerRequest]]) -> None:
        containers = self._records.containers
        # At most what is charged: what runs, or may, for any request of the subject.
        used: dict[str, set[str]] = {subject: set() for subject in self._records.quotas}
        for uuid, (_, _, perhaps) in self._locks.items():
            for subject in used.keys() & perhaps:
                used[subject].add(uuid)
        cost = sum(one.cost for one in containers.values())
        waits: list[tuple[int, ContainerRequest]] = []
        for uuid, asking in wanting.items():
            record = containers[uuid]
            may_run = record.priority > 0 or record.state in _HELD
            for one in asking:
                for subject in self._quotas_of(one) if may_run else ():
                    used[subject].add(uuid)
                parent = containers.get(one.requesting_container_uuid or "")
                own = own_worth(one.priority or 0, one.created_at)
                rank = own if parent is None else parent.priority
                if record.state == "Queued" and record.priority == 0 and one.priority:
                    waits += [(rank, one)] if rank > 0 else []
        for rank, one in waits:
            subjects, uuid = self._quotas_of(one), one.container_uuid or ""
            if _runs_workflow(one):
                # It may wait for another workflow to end.
                continue
            before = {
                subject
                for more, other in waits
                for subject in self._quotas_of(other)
                if other is not one and more >= rank and not self._waits_apart(other, used)
            }
            is_free = all(
                subject not in before and self._fits(subject, {*used[subject], uuid})
                for subject in subjects
            )
            # One of a group may wait for its turn.
            # What all containers have cost is at least what each subject has spent.
            budgets = [self._records.quotas[uuid].money.budget for uuid in subjects]
            has_money = all(budget is None or cost < budget for budget in budgets)
            if subjects and is_free and has_money and not one.max_parallel:
                what = f"{one.uuid} waits for {subjects}, and there is room"
                raise Broken(Invariant.ROOM, what)

    def _waits_apart(self, one: ContainerRequest, used: Mapping[str, Collection[str]]) -> bool:
        """Whether a workflow has no room in half of one of its quotas."""
        containers = self._records.containers
        if not _runs_workflow(one):
            return False
        for subject in self._quotas_of(one):
            runners = {uuid for uuid in used[subject] if _runs_workflow(containers[uuid])}
            if not self._fits(subject, {*runners, one.container_uuid or ""}, parts=2):
                return True
        return False

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
                    what = f"{command.uuid} runs on {machine.name}, unwanted for {seconds:.0f} s"
                    raise Broken(Invariant.STOPPED, what)
                seen[command] = (seconds, steps)
        self._unwanted = seen

    def _is_wanted(self, command: Command) -> bool:
        record = self._records.containers[command.uuid]
        holds = record.supervisor_auth_uuid == uuid_of(command.token)
        return record.state in _HELD and record.priority > 0 and holds


def _runs_workflow(one: ContainerRequest | Container) -> bool:
    return one.scheduling_parameters.get("supervisor") is True


def _changed(old: Mapping[str, _Value], new: Mapping[str, _Value]) -> list[_Value]:
    """The records that were made or replaced."""
    return [one for uuid, one in new.items() if one is not old.get(uuid)]


@lru_cache(4096)
def own_worth(priority: int, created_at: str) -> int:
    """The worth of a user's request: its priority first, then its age in milliseconds."""
    made = datetime.fromisoformat(created_at[:26]).replace(tzinfo=UTC)
    return priority * 2**50 - ((made - _EPOCH) // timedelta(microseconds=1) + 500) // 1000


def _rank(state: Any) -> int:
    """How far a record has come: 1 once it runs, 2 once it has ended."""
    if state is None or state in ("Queued", "Locked"):
        return 0
    return 1 if state == "Running" else 2

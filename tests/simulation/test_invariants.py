"""Each invariant of the simulation, with cases that violate it and cases that satisfy all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lading.core.containers.container import Container, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.containers.request_phases import RequestState
from lading.core.data.manifest import portable_data_hash
from lading.core.policy.quotas import Quota
from tests.simulation.host import Command, Supervisor
from tests.simulation.invariants import (
    STOP_SECONDS,
    STOP_STEPS,
    Broken,
    Invariant,
    Invariants,
    own_worth,
)
from tests.simulation.server import content_of
from tests.simulation.tables import (
    DISPATCHER_TOKENS,
    ContainerWrite,
    RecordTables,
    token_text,
)

C1, C2 = "zzzzz-dz642-000000000000001", "zzzzz-dz642-000000000000002"
R1, R2 = "zzzzz-xvhdp-000000000000001", "zzzzz-xvhdp-000000000000002"
OWN, SUPERVISOR, OTHER = (f"zzzzz-gj3su-00000000000000{number}" for number in (1, 2, 3))
D1, D2 = DISPATCHER_TOKENS
NOW = "2026-01-01T00:01:00.000000000Z"
SIZES: dict[str, Any] = {"vcpus": 1}


@dataclass
class StillMachine:
    """A host on which nothing happens by itself."""

    name: str = "h1"
    runs: dict[str, Supervisor] = field(default_factory=dict)
    alive: list[Command] = field(default_factory=list)

    def runs_command(self, uuid: str) -> bool:
        return any(one.uuid == uuid for one in self.alive)

    def commands(self) -> list[Command]:
        return self.alive


class Case:
    """Records that satisfy all invariants, to be changed; `look` checks them."""

    def __init__(self) -> None:
        self.records = RecordTables()
        self.machines = [StillMachine("h1"), StillMachine("h2")]
        self.invariants = Invariants(self.records, self.machines)
        self.now = 0.0
        self.request(R1)
        self.container(C1)
        self.look()

    def container(self, uuid: str, **changes: Any) -> Container:
        """Change a container, or make one."""
        old = self.records.containers.get(uuid) or Container(
            uuid=uuid, priority=own_worth(1, NOW), runtime_constraints=SIZES, command=["work"]
        )
        made = self.records.containers[uuid] = msgspec.structs.replace(old, **changes)
        return made

    def request(self, uuid: str, **changes: Any) -> ContainerRequest:
        """Change a request, or make one for the first container."""
        old = self.records.requests.get(uuid) or ContainerRequest(
            uuid=uuid, state=RequestState.COMMITTED, priority=1, container_uuid=C1,
            container_count=1, created_at=NOW,
            container_count_max=2, command=["work"], runtime_constraints=SIZES,
        )  # fmt: skip
        made = self.records.requests[uuid] = msgspec.structs.replace(old, **changes)
        return made

    def lock(self, state: ContainerState = ContainerState.LOCKED, **changes: Any) -> None:
        """The first container is locked by the first dispatcher."""
        held = {"locked_by_uuid": D1, "auth_uuid": OWN, "supervisor_auth_uuid": SUPERVISOR}
        self.container(C1, state=ContainerState.LOCKED, lock_count=1, **held, **changes)
        self.records.tokens.update({OWN: C1, SUPERVISOR: C1})
        self.look()
        if state is not ContainerState.LOCKED:
            self.container(C1, state=state)
            self.look()

    def end(self, state: ContainerState = ContainerState.CANCELLED, **changes: Any) -> None:
        """The first container ends; its requests do not yet."""
        gone = {"locked_by_uuid": None, "auth_uuid": None, "supervisor_auth_uuid": None}
        self.container(C1, state=state, **{**gone, **changes})
        self.records.tokens.clear()

    def complete(self, **changes: Any) -> None:
        """The first container ran to its end with success."""
        self.lock(ContainerState.RUNNING)
        command = Command(C1, 1, token_text(SUPERVISOR))
        self.invariants.begin(self.machines[0], command)
        command.done, command.ended_at = True, NOW
        output, log = (portable_data_hash(content_of(name)) for name in (command.output, "log"))
        self.records.saved |= {output, log}
        result = {"exit_code": 0, "output": output, "log": log, "finished_at": NOW}
        self.end(ContainerState.COMPLETE, **{**result, **changes})
        self.request(R1, state=RequestState.FINAL)

    def look(self, seconds: float = 1.0) -> None:
        """Check them."""
        self.now += seconds
        self.invariants.look(self.now, {"h1", "h2"})


def two_commands(it: Case) -> None:
    it.lock(ContainerState.RUNNING)
    it.machines[0].alive.append(Command(C1, 1, token_text(SUPERVISOR)))
    it.invariants.begin(it.machines[1], Command(C1, 1, token_text(SUPERVISOR)))


def one_command_after_the_other(it: Case) -> None:
    it.lock(ContainerState.RUNNING)
    for machine in it.machines:
        it.invariants.begin(machine, Command(C1, 1, token_text(SUPERVISOR)))


def start_without_the_lock(it: Case) -> None:
    it.lock(ContainerState.RUNNING)
    it.invariants.begin(it.machines[0], Command(C1, 1, token_text(OTHER)))


def start_before_running(it: Case) -> None:
    it.lock()
    it.invariants.begin(it.machines[0], Command(C1, 1, token_text(SUPERVISOR)))


def run_from_the_queue(it: Case) -> None:
    it.container(
        C1, state=ContainerState.RUNNING, locked_by_uuid=D1, supervisor_auth_uuid=SUPERVISOR
    )


def run_again(it: Case) -> None:
    it.complete()
    it.look()
    it.container(C1, state=ContainerState.QUEUED)


def reopen(it: Case) -> None:
    it.complete()
    it.look()
    it.request(R1, state=RequestState.COMMITTED)


def take_the_lock(it: Case) -> None:
    it.lock()
    it.container(C1, locked_by_uuid=D2)


def lock_uncounted(it: Case) -> None:
    held = {"locked_by_uuid": D1, "auth_uuid": OWN, "supervisor_auth_uuid": SUPERVISOR}
    it.container(C1, state=ContainerState.LOCKED, **held)


def keep_the_lock(it: Case) -> None:
    it.lock()
    it.container(C1, state=ContainerState.QUEUED)


def write_to_anothers(it: Case) -> None:
    it.lock()
    it.records.writes.append(ContainerWrite(D2, it.records.containers[C1]))


def write_as_an_old_supervisor(it: Case) -> None:
    it.records.writes.append(ContainerWrite(OTHER, it.records.containers[C1]))


def token_survives(it: Case) -> None:
    it.lock()
    it.end()
    it.records.tokens[SUPERVISOR] = C1


def token_dies_early(it: Case) -> None:
    it.lock()
    it.records.tokens.clear()


def another_exit_code(it: Case) -> None:
    it.complete(exit_code=1)


def no_output(it: Case) -> None:
    it.complete(output=None)


def another_output(it: Case) -> None:
    it.complete(output=portable_data_hash(content_of("log")))


def end_when_heard(it: Case) -> None:
    it.complete(finished_at="2026-01-01T00:09:00.000000000Z")


def complete_without_a_command(it: Case) -> None:
    it.lock(ContainerState.RUNNING)
    it.end(ContainerState.COMPLETE)


def code_changes_afterwards(it: Case) -> None:
    it.complete()
    it.look()
    it.container(C1, exit_code=3)


def one_attempt_too_many(it: Case) -> None:
    it.request(R1, container_count_max=1)
    it.look()
    it.container(C1, state=ContainerState.CANCELLED)
    it.container(C2)
    it.request(R1, container_uuid=C2, container_count=2)


def attempt_uncounted(it: Case) -> None:
    it.container(C1, state=ContainerState.CANCELLED)
    it.container(C2)
    it.request(R1, container_uuid=C2)


def given_up(it: Case) -> None:
    it.container(C1, state=ContainerState.CANCELLED)
    it.request(R1, state=RequestState.FINAL)


def left_open(it: Case) -> None:
    it.complete()
    it.request(R1, state=RequestState.COMMITTED)


def closed_too_soon(it: Case) -> None:
    it.request(R2)
    it.look()
    it.request(R2, state=RequestState.FINAL)


def run_for_nobody(it: Case) -> None:
    it.request(R1, priority=0, state=RequestState.FINAL)
    it.container(C1, priority=0)


def reuse_of_a_failed_one(it: Case) -> None:
    it.container(C1, state=ContainerState.CANCELLED)
    it.request(R1, priority=0, state=RequestState.FINAL)
    it.look()
    it.request(R2, state=RequestState.FINAL)


def reuse_of_another_command(it: Case) -> None:
    it.request(R2, command=["other"])


def reuse_unasked(it: Case) -> None:
    it.request(R2, use_existing=False)


def child_of_the_dead(it: Case) -> None:
    it.complete()
    it.container(C2)
    it.request(R2, container_uuid=C2, requesting_container_uuid=C1)


def stale_priority(it: Case) -> None:
    it.request(R1, priority=5)


def stale_hold(it: Case) -> None:
    it.request(R1, priority=0)


def stale_child(it: Case) -> None:
    it.container(C2, priority=7)
    it.request(R2, container_uuid=C2, requesting_container_uuid=C1)


def group_of_two(it: Case, *, most: int) -> None:
    grouped = {"parallel_group": "g", "max_parallel": most, "committed_by_uuid": "u"}
    it.request(R1, **grouped)
    it.request(R2, container_uuid=C2, **grouped)


def two_at_a_time(it: Case) -> None:
    group_of_two(it, most=1)
    it.container(C2)


def none_at_a_time(it: Case) -> None:
    group_of_two(it, most=2)
    it.container(C2, priority=0)


def quota_of_one(it: Case) -> None:
    it.request(R1, committed_by_uuid=D1)
    it.records.quotas[D1] = Quota(subject_uuid=D1, containers=1)


def locked_beyond_a_quota(it: Case) -> None:
    quota_of_one(it)
    it.lock()
    it.request(R2, container_uuid=C2, committed_by_uuid=D1)
    held = {"locked_by_uuid": D1, "auth_uuid": "a", "supervisor_auth_uuid": "s"}
    it.container(C2)
    it.look()
    it.container(C2, state=ContainerState.LOCKED, lock_count=1, **held)
    it.records.tokens.update({"a": C2, "s": C2})


def held_with_room(it: Case) -> None:
    quota_of_one(it)
    it.container(C1, priority=0)


def costs_nothing(it: Case) -> None:
    it.complete(cost=0.5)


def forgets_what_it_asked_for(it: Case) -> None:
    it.complete(cost=0.5, subrequests_cost=0.25)
    it.request(R1, cumulative_cost=0.5)


def given_back_under_it(it: Case) -> None:
    it.lock()
    it.machines[0].runs[C1] = Supervisor(C1, token_text(SUPERVISOR))
    it.records.writes.append(ContainerWrite(D1, it.records.containers[C1]))
    it.end(ContainerState.QUEUED)


def cancelled_under_it(it: Case) -> None:
    it.lock(ContainerState.RUNNING)
    it.machines[1].runs[C1] = Supervisor(C1, token_text(SUPERVISOR))
    it.records.writes.append(ContainerWrite(D1, it.records.containers[C1]))
    it.end()
    it.request(R1, priority=0, state=RequestState.FINAL)


def runs_on(it: Case) -> None:
    it.lock(ContainerState.RUNNING)
    it.machines[0].alive.append(Command(C1, 1, token_text(SUPERVISOR)))
    it.request(R1, priority=0)
    it.container(C1, priority=0)
    for _ in range(STOP_STEPS + 2):
        it.look(seconds=STOP_SECONDS / STOP_STEPS)


def runs_on_lost(it: Case) -> None:
    it.lock(ContainerState.RUNNING)
    it.machines[0].alive.append(Command(C1, 1, token_text(OTHER)))
    for _ in range(STOP_STEPS + 2):
        it.look(seconds=STOP_SECONDS / STOP_STEPS)


def forgets(it: Case) -> None:
    queue = SimpleNamespace(waiting={}, others={C1: SimpleNamespace(state=ContainerState.RUNNING)})
    it.invariants.look_at_queue("d1", queue)
    queue.others = {C1: SimpleNamespace(state=ContainerState.LOCKED)}
    it.invariants.look_at_queue("d1", queue)


VIOLATIONS: list[tuple[Callable[[Case], None], Invariant]] = [
    (two_commands, Invariant.ONE_COMMAND),
    (one_command_after_the_other, Invariant.ONE_COMMAND),
    (start_without_the_lock, Invariant.FENCED),
    (start_before_running, Invariant.FENCED),
    (run_from_the_queue, Invariant.STATES),
    (run_again, Invariant.STATES),
    (reopen, Invariant.STATES),
    (take_the_lock, Invariant.ONE_LOCKER),
    (lock_uncounted, Invariant.ONE_LOCKER),
    (keep_the_lock, Invariant.ONE_LOCKER),
    (write_to_anothers, Invariant.WRITERS),
    (write_as_an_old_supervisor, Invariant.WRITERS),
    (token_survives, Invariant.TOKENS),
    (token_dies_early, Invariant.TOKENS),
    (another_exit_code, Invariant.RESULT),
    (no_output, Invariant.RESULT),
    (another_output, Invariant.RESULT),
    (end_when_heard, Invariant.RESULT),
    (complete_without_a_command, Invariant.RESULT),
    (code_changes_afterwards, Invariant.RESULT),
    (one_attempt_too_many, Invariant.ATTEMPTS),
    (attempt_uncounted, Invariant.ATTEMPTS),
    (given_up, Invariant.ATTEMPTS),
    (left_open, Invariant.OPEN),
    (closed_too_soon, Invariant.OPEN),
    (run_for_nobody, Invariant.OPEN),
    (reuse_of_a_failed_one, Invariant.REUSE),
    (reuse_of_another_command, Invariant.REUSE),
    (reuse_unasked, Invariant.REUSE),
    (child_of_the_dead, Invariant.CHILDREN),
    (stale_priority, Invariant.PRIORITY),
    (stale_hold, Invariant.PRIORITY),
    (stale_child, Invariant.PRIORITY),
    (two_at_a_time, Invariant.PARALLEL),
    (none_at_a_time, Invariant.PARALLEL),
    (locked_beyond_a_quota, Invariant.QUOTA),
    (held_with_room, Invariant.ROOM),
    (costs_nothing, Invariant.COST),
    (forgets_what_it_asked_for, Invariant.COST),
    (given_back_under_it, Invariant.GIVEN_BACK),
    (cancelled_under_it, Invariant.GIVEN_BACK),
    (runs_on, Invariant.STOPPED),
    (runs_on_lost, Invariant.STOPPED),
    (forgets, Invariant.FORWARDS),
]


@pytest.mark.parametrize(
    ("violate", "invariant"),
    VIOLATIONS,
    ids=[violate.__name__ for violate, _ in VIOLATIONS],
)
def test_a_violation_is_told_by_its_invariant(
    violate: Callable[[Case], None],
    invariant: Invariant,
) -> None:
    it = Case()
    with pytest.raises(Broken) as told:
        violate(it)
        it.look()
    assert told.value.invariant is invariant


def test_every_invariant_has_a_case() -> None:
    # Invariant.END is about a whole scenario: test_scenario has its case.
    assert {invariant for _, invariant in VIOLATIONS} == set(Invariant) - {Invariant.END}


def test_a_whole_life_satisfies_all() -> None:
    it = Case()
    it.lock()
    it.end(ContainerState.QUEUED)
    it.look()
    it.container(
        C1,
        state=ContainerState.LOCKED,
        lock_count=2,
        locked_by_uuid=D2,
        auth_uuid=OTHER,
        supervisor_auth_uuid=OWN,
    )
    it.records.tokens.update({OTHER: C1, OWN: C1})
    it.look()
    it.end()
    it.container(C2)
    it.request(R1, container_uuid=C2, container_count=2)
    it.look()
    it.request(R2, container_uuid=C2, priority=3)
    it.container(C2, priority=own_worth(3, NOW))
    it.look()


def test_a_request_costs_what_its_attempts_have_cost() -> None:
    it = Case()
    it.lock()
    it.end(cost=0.5)
    it.container(C2)
    it.request(R1, container_uuid=C2, container_count=2, cumulative_cost=0.5)
    it.look()
    it.container(C2, state=ContainerState.CANCELLED)
    it.request(R1, state=RequestState.FINAL)
    it.look()


def test_success_is_shared_and_a_child_ranks_with_its_parent() -> None:
    it = Case()
    it.lock(ContainerState.RUNNING)
    it.container(C2)
    it.request(R2, container_uuid=C2, requesting_container_uuid=C1)
    it.look()
    other = Case()
    other.complete()
    other.look()
    other.request(R2, state=RequestState.FINAL)
    other.look()


def test_a_command_that_nobody_wants_has_its_time_and_more_while_no_dispatcher_is_up() -> None:
    it = Case()
    it.lock(ContainerState.RUNNING)
    it.machines[0].alive.append(Command(C1, 1, token_text(SUPERVISOR)))
    it.request(R1, priority=0)
    it.container(C1, priority=0)
    for _ in range(STOP_STEPS):
        it.look(seconds=STOP_SECONDS / STOP_STEPS)
    for _ in range(STOP_STEPS):
        it.now += 10.0
        it.invariants.look(it.now, {"h2"})


def test_worth_is_priority_first_then_age() -> None:
    assert own_worth(2, NOW) > own_worth(1, "2020-01-01T00:00:00.000000000Z") > own_worth(1, NOW)
    assert own_worth(1, "1970-01-01T00:00:00.001500000Z") == 2**50 - 2

"""Decisions of the dispatch loop where a record and the processes of this dispatcher disagree.

`decide` gives the action for every combination of both (docs/spec/dispatch, section
Reconciliation). Rules:

- At most one process is responsible for a container. A process that lives is left alone unless its
  record says that it must end; then it is asked to stop, never forgotten.
- The remains of a dead process (container processes, mounts) are cleared away *before* its record
  is released, as the next attempt may start at once. Then the process counts as absent.
- A record without a process is released only if it was read after the process was last seen
  (`fresh`): the supervisor's last write may have been the final state.
- Running without a process is cancelled, Locked without a process is given back to the queue. The
  API counts the attempts and decides on retries; a dispatcher never does.
- A queued container with priority 0 is on hold: forgotten here, cancelled by nobody (its request
  may be a preview, or raise its priority again).
- While it is not known which processes exist (`UNKNOWN`), nothing is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from lading.core.containers.container import ContainerState
from lading.core.scheduling.planning import TrackedContainer


class ProcessState(StrEnum):
    """The supervisor process of one container, as this dispatcher sees it."""

    UNKNOWN = "unknown"
    ABSENT = "absent"
    ALIVE = "alive"
    EXITED = "exited"


class RecordState(StrEnum):
    """The record of one container, by this dispatcher's part in it."""

    MISSING = "missing"
    QUEUED = "queued"
    HELD = "held"
    LOCKED = "locked"
    RUNNING = "running"
    UNWANTED_LOCKED = "unwanted, locked"
    UNWANTED_RUNNING = "unwanted, running"
    FOREIGN = "foreign"
    FINAL = "final"


class ReconcileAction(StrEnum):
    """The next action. One action at a time for a container; its outcome is a new process state or
    a new record.

    LEAVE: nothing. REREAD: fetch the record. KILL: tell the process to stop. CLEAN: remove the
    remains of a dead process. REQUEUE: unlock. CANCEL: end the record. FORGET: drop the container
    from the dispatcher's tables.
    """

    LEAVE = "leave"
    REREAD = "reread"
    KILL = "kill"
    CLEAN = "clean"
    REQUEUE = "requeue"
    CANCEL = "cancel"
    FORGET = "forget"


def record_state(container: TrackedContainer, *, mine: bool) -> RecordState:
    """State of a record by this dispatcher's part in it; `mine`: this dispatcher holds its lock."""
    is_wanted = container.priority > 0
    match container.state:
        case None:
            return RecordState.MISSING
        case ContainerState.COMPLETE | ContainerState.CANCELLED:
            return RecordState.FINAL
        case ContainerState.QUEUED:
            return RecordState.QUEUED if is_wanted else RecordState.HELD
        case _ if not mine:
            return RecordState.FOREIGN
        case ContainerState.LOCKED:
            return RecordState.LOCKED if is_wanted else RecordState.UNWANTED_LOCKED
        case _:
            return RecordState.RUNNING if is_wanted else RecordState.UNWANTED_RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One container seen from both sides.

    `fresh`: the record was read after the process was last seen. `lingering`: the process has
    outlived its final record for longer than a tidy end takes.
    """

    record: RecordState
    process: ProcessState
    fresh: bool = True
    lingering: bool = False


def decide(case: Case) -> ReconcileAction:
    """The next action, for every combination of record and process."""
    action = TABLE[case.record, case.process]
    # Given back or cancelled by a record that was read too early, a container could be run twice,
    # or lose its result.
    if action in (ReconcileAction.REQUEUE, ReconcileAction.CANCEL) and not case.fresh:
        return ReconcileAction.REREAD
    # A final record with a living process: the supervisor may be removing its directories.
    if action is ReconcileAction.KILL and case.record is RecordState.FINAL and not case.lingering:
        return ReconcileAction.LEAVE
    return action


def _row(
    where: RecordState, *, absent: ReconcileAction, alive: ReconcileAction
) -> dict[tuple[RecordState, ProcessState], ReconcileAction]:
    return {
        (where, ProcessState.UNKNOWN): ReconcileAction.LEAVE,
        (where, ProcessState.ABSENT): absent,
        (where, ProcessState.ALIVE): alive,
        (where, ProcessState.EXITED): ReconcileAction.CLEAN,
    }


TABLE: Mapping[tuple[RecordState, ProcessState], ReconcileAction] = MappingProxyType(
    _row(RecordState.MISSING, absent=ReconcileAction.FORGET, alive=ReconcileAction.KILL)
    | _row(RecordState.QUEUED, absent=ReconcileAction.LEAVE, alive=ReconcileAction.KILL)
    | _row(RecordState.HELD, absent=ReconcileAction.FORGET, alive=ReconcileAction.KILL)
    | _row(RecordState.LOCKED, absent=ReconcileAction.REQUEUE, alive=ReconcileAction.LEAVE)
    | _row(RecordState.RUNNING, absent=ReconcileAction.CANCEL, alive=ReconcileAction.LEAVE)
    | _row(RecordState.UNWANTED_LOCKED, absent=ReconcileAction.REQUEUE, alive=ReconcileAction.KILL)
    | _row(RecordState.UNWANTED_RUNNING, absent=ReconcileAction.CANCEL, alive=ReconcileAction.KILL)
    # Other dispatchers' containers have processes here only by mistake, as after a lost lock.
    | _row(RecordState.FOREIGN, absent=ReconcileAction.FORGET, alive=ReconcileAction.KILL)
    | _row(RecordState.FINAL, absent=ReconcileAction.FORGET, alive=ReconcileAction.KILL)
)

"""What to do where a record and the processes of this dispatcher disagree.

Source: docs/spec/dispatch, section Reconciliation.

The record says what ought to be, the process view says what is. One table lists every combination.
Rules behind it:

- At most one process is responsible for a container. A process that lives is left alone unless its
  record says that it must end; then it is told to stop, never forgotten.
- What a dead process left behind (container processes, mounts) is cleared away *before* its record
  is released, as the next attempt may start the moment it is. Cleared away, the process counts as
  absent.
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

from lading.core.containers.container import State


class View(StrEnum):
    """What this dispatcher sees of the process of one container."""

    UNKNOWN = "unknown"
    ABSENT = "absent"
    ALIVE = "alive"
    EXITED = "exited"


class Standing(StrEnum):
    """What the record says about this dispatcher's part in the container."""

    MISSING = "missing"
    QUEUED = "queued"
    HELD = "held"
    LOCKED = "locked"
    RUNNING = "running"
    UNWANTED_LOCKED = "unwanted, locked"
    UNWANTED_RUNNING = "unwanted, running"
    FOREIGN = "foreign"
    FINAL = "final"


class Action(StrEnum):
    """What to do next. One action at a time for a container; its outcome is a new view or a new
    record.

    LEAVE: nothing. REREAD: fetch the record. KILL: tell the process to stop. CLEAN: clear away what
    a dead process left. REQUEUE: unlock. CANCEL: end the record. FORGET: drop the container from
    the dispatcher's tables.
    """

    LEAVE = "leave"
    REREAD = "reread"
    KILL = "kill"
    CLEAN = "clean"
    REQUEUE = "requeue"
    CANCEL = "cancel"
    FORGET = "forget"


def standing(state: State | None, *, priority: int, mine: bool) -> Standing:
    """Where a record stands; `state` None: there is no such record; `mine`: this dispatcher holds
    its lock.
    """
    match state:
        case None:
            return Standing.MISSING
        case State.COMPLETE | State.CANCELLED:
            return Standing.FINAL
        case State.QUEUED:
            return Standing.QUEUED if priority > 0 else Standing.HELD
        case _ if not mine:
            return Standing.FOREIGN
        case State.LOCKED:
            return Standing.LOCKED if priority > 0 else Standing.UNWANTED_LOCKED
        case _:
            return Standing.RUNNING if priority > 0 else Standing.UNWANTED_RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One container seen from both sides.

    `fresh`: the record was read after the process was last seen. `lingering`: the process has
    outlived its final record for longer than a tidy end takes.
    """

    standing: Standing
    view: View
    fresh: bool = True
    lingering: bool = False


def decide(case: Case) -> Action:
    """The one next action. Total: every combination has an answer."""
    action = TABLE[case.standing, case.view]
    if action in (Action.REQUEUE, Action.CANCEL) and not case.fresh:
        return Action.REREAD
    if action is Action.KILL and case.standing is Standing.FINAL and not case.lingering:
        return Action.LEAVE
    return action


def _row(where: Standing, *, absent: Action, alive: Action) -> dict[tuple[Standing, View], Action]:
    return {
        (where, View.UNKNOWN): Action.LEAVE,
        (where, View.ABSENT): absent,
        (where, View.ALIVE): alive,
        (where, View.EXITED): Action.CLEAN,
    }


TABLE: Mapping[tuple[Standing, View], Action] = MappingProxyType(
    _row(Standing.MISSING, absent=Action.FORGET, alive=Action.KILL)
    | _row(Standing.QUEUED, absent=Action.LEAVE, alive=Action.KILL)
    | _row(Standing.HELD, absent=Action.FORGET, alive=Action.KILL)
    | _row(Standing.LOCKED, absent=Action.REQUEUE, alive=Action.LEAVE)
    | _row(Standing.RUNNING, absent=Action.CANCEL, alive=Action.LEAVE)
    | _row(Standing.UNWANTED_LOCKED, absent=Action.REQUEUE, alive=Action.KILL)
    | _row(Standing.UNWANTED_RUNNING, absent=Action.CANCEL, alive=Action.KILL)
    | _row(Standing.FOREIGN, absent=Action.FORGET, alive=Action.KILL)
    | _row(Standing.FINAL, absent=Action.FORGET, alive=Action.KILL)
)

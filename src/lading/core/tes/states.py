"""States of tasks, from the records of a request and its container.

| request | container | state |
|---|---|---|
| Uncommitted | none | QUEUED while inputs are fetched; CANCELED; SYSTEM_ERROR when one cannot be |
| Committed | none, Queued | QUEUED; INITIALIZING when an earlier attempt was lost |
| Committed | Locked | INITIALIZING |
| Committed | Running, ended | RUNNING |
| Committed, priority 0 | any | CANCELING |
| Final | Complete, exit code 0, all outputs present | COMPLETE |
| Final | Complete, exit code 0, an output missing | SYSTEM_ERROR |
| Final | Complete, other exit code; ended for lack of memory | EXECUTOR_ERROR |
| Final | Cancelled, as its command cannot be started (126, 127) | EXECUTOR_ERROR |
| Final | reclaimed with its machine | PREEMPTED |
| Final, priority 0 | not Complete | CANCELED |
| Final | Cancelled without a cause | CANCELED |
| Final | anything else | SYSTEM_ERROR |

Outputs by URL are delivered after the end of a container that is Complete. Until then the task is
RUNNING; without success COMPLETE becomes SYSTEM_ERROR, and CANCELED when it is cancelled meanwhile.

Clients of TES 1.0 do not know CANCELING and PREEMPTED, and some poll them for ever: `legacy` shows
RUNNING and SYSTEM_ERROR in place of these, and RUNNING for a task that runs again.

Source: GA4GH Task Execution Service 1.1.0, tesState; docs/tes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from lading.core.containers.container import ContainerState, start_refusal
from lading.core.containers.request_phases import RequestState
from lading.core.errors import Failure, Malformed
from lading.core.tes.transfers import EndedTask, TransferPhase, phase_of_ended
from lading.core.values import Json, printable

# Seconds after its creation in which a free machine takes a task that needs nothing else.
_TAKEN = 2.0
_ENDED = ("state", "=", "Final")
# Tasks whose inputs could not be fetched, or that were cancelled before that, stay Uncommitted.
_ENDED_OR_DRAFT: tuple[str, str, Json] = ("state", "in", ["Final", "Uncommitted"])
_BEFORE_THE_END: tuple[str, str, Json] = ("state", "in", ["Committed", "Uncommitted"])


class TaskState(StrEnum):
    """The states of TES 1.1. PAUSED and UNKNOWN are never shown."""

    UNKNOWN = "UNKNOWN"
    QUEUED = "QUEUED"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETE = "COMPLETE"
    EXECUTOR_ERROR = "EXECUTOR_ERROR"
    SYSTEM_ERROR = "SYSTEM_ERROR"
    CANCELED = "CANCELED"
    CANCELING = "CANCELING"
    PREEMPTED = "PREEMPTED"


_LEGACY: Mapping[TaskState, TaskState] = MappingProxyType(
    {TaskState.CANCELING: TaskState.RUNNING, TaskState.PREEMPTED: TaskState.SYSTEM_ERROR}
)
OPEN = frozenset({TaskState.QUEUED, TaskState.INITIALIZING, TaskState.RUNNING, TaskState.CANCELING})
"""States before the end of a task."""
# Conditions that every request in a state meets. Others may meet them too.
_CONDITIONS: Mapping[TaskState, tuple[tuple[str, str, Json], ...]] = MappingProxyType(
    {
        TaskState.CANCELING: (("state", "=", "Committed"), ("priority", "=", 0)),
        TaskState.COMPLETE: (
            _ENDED,
            ("container.state", "=", "Complete"),
            ("container.exit_code", "=", 0),
        ),
        TaskState.SYSTEM_ERROR: (_ENDED_OR_DRAFT,),
        TaskState.CANCELED: (_ENDED_OR_DRAFT,),
        TaskState.QUEUED: (_BEFORE_THE_END,),
        TaskState.EXECUTOR_ERROR: (_ENDED, ("container.state", "in", ["Complete", "Cancelled"])),
        TaskState.PREEMPTED: (_ENDED, ("container.state", "=", "Cancelled")),
    }
)


def parse_state(name: str) -> TaskState:
    """The state that a filter names. Raises Malformed."""
    try:
        return TaskState(name)
    except ValueError:
        known = ", ".join(TaskState)
        raise Malformed(f"state: {printable(name)!r} is none of {known}") from None


def conditions(state: TaskState, *, legacy: bool) -> list[list[Json]]:
    """Filters of requests that hold for every task in `state`, but for those whose transfers are in
    the phase `transfer_phase(state)`; the caller checks each task found.
    """
    if state is TaskState.QUEUED or not legacy:
        open_ones = (("state", "=", "Committed"),)
        known = _CONDITIONS.get(state, open_ones if state in OPEN else (_ENDED,))
        return [[*condition] for condition in known]
    return [["state", "=", "Committed"]] if state in OPEN else [[*_ENDED_OR_DRAFT]]


def transfer_phase(state: TaskState) -> TransferPhase | None:
    """The phase in which its transfer alone can bring a task into a state; None for others."""
    return TransferPhase.DELIVERING if state is TaskState.RUNNING else None


def is_awaited(state: TaskState, age: float, most: float) -> bool:
    """Whether the answer to a client waits for the end of a task that was created `age` seconds
    ago. None does after `most` seconds, nor for a task that no machine has taken: its system log
    says why.
    """
    return state in OPEN and age < (min(most, _TAKEN) if state is TaskState.QUEUED else most)


def is_shown(state: TaskState, *, legacy: bool) -> bool:
    """Whether any task is ever shown in this state."""
    return state not in (TaskState.UNKNOWN, TaskState.PAUSED) and not (legacy and state in _LEGACY)


def state_of(
    request: Mapping[str, Any],
    container: Mapping[str, Any] | None,
    *,
    legacy: bool = False,
    lacks_outputs: bool = False,
    transfer: TransferPhase | None = None,
    keeps: bool = False,
) -> TaskState:
    """The state of a task. `request` has state, priority, attempted_container_uuids, output_uuid;
    `container` state, exit_code, runtime_status; `transfer` is the phase of its transfers; `keeps`:
    its outputs are wanted after a failure too.
    """
    match request["state"]:
        case RequestState.UNCOMMITTED:
            state = _draft_state(request, transfer)
        case RequestState.COMMITTED:
            state = _open_state(request, container, legacy=legacy)
        case _:
            state = _ended_state(request, container, lacks_outputs=lacks_outputs)
            state = _delivered_state(state, request, container, transfer, keeps=keeps)
    return _LEGACY.get(state, state) if legacy else state


def _draft_state(request: Mapping[str, Any], transfer: TransferPhase | None) -> TaskState:
    if transfer is TransferPhase.FAILED:
        return TaskState.SYSTEM_ERROR
    if transfer is TransferPhase.CANCELLED or not request["priority"]:
        return TaskState.CANCELED
    return TaskState.QUEUED


def _delivered_state(
    state: TaskState,
    request: Mapping[str, Any],
    container: Mapping[str, Any] | None,
    transfer: TransferPhase | None,
    *,
    keeps: bool,
) -> TaskState:
    """The state of a task that has ended, by the delivery of its outputs."""
    match transfer:
        case TransferPhase.CANCELLED:
            return TaskState.CANCELED
        case TransferPhase.FAILED if state is TaskState.COMPLETE:
            return TaskState.SYSTEM_ERROR
        case TransferPhase.DELIVERING:
            return TaskState.RUNNING
        case TransferPhase.RUNNING:
            ended = EndedTask(
                request_uuid="",
                container_state=container["state"] if container else "",
                output_uuid=request.get("output_uuid") or "",
                keeps=keeps,
                is_cancelled=not request["priority"],
            )
            is_next = phase_of_ended(ended) is TransferPhase.DELIVERING
            return TaskState.RUNNING if is_next else state
    return state


def failure(container: Mapping[str, Any] | None) -> str:
    """The failure class that a container's record names, or ""."""
    status = (container or {}).get("runtime_status") or {}
    return str(status.get("failure") or "")


def _open_state(
    request: Mapping[str, Any], container: Mapping[str, Any] | None, *, legacy: bool
) -> TaskState:
    if not request["priority"]:
        return TaskState.CANCELING
    found = container["state"] if container else ContainerState.QUEUED
    again = bool(request["attempted_container_uuids"])
    if found == ContainerState.QUEUED and not again:
        return TaskState.QUEUED
    if found in (ContainerState.QUEUED, ContainerState.LOCKED):
        # States go forward only; clients of TES 1.0 know no way back from RUNNING.
        return TaskState.RUNNING if again and legacy else TaskState.INITIALIZING
    return TaskState.RUNNING


def _ended_state(
    request: Mapping[str, Any], container: Mapping[str, Any] | None, *, lacks_outputs: bool
) -> TaskState:
    if container and container["state"] == ContainerState.COMPLETE:
        if container["exit_code"] != 0:
            return TaskState.EXECUTOR_ERROR
        return TaskState.SYSTEM_ERROR if lacks_outputs else TaskState.COMPLETE
    match failure(container):
        case Failure.OOM:
            return TaskState.EXECUTOR_ERROR
        case Failure.PREEMPTED:
            return TaskState.PREEMPTED
    if container and start_refusal(container):
        return TaskState.EXECUTOR_ERROR
    # The step of a cancelled run keeps its own priority; its container ends without a cause.
    wanted = request["priority"] and (container is None or has_cause(container))
    return TaskState.SYSTEM_ERROR if wanted else TaskState.CANCELED


def has_cause(container: Mapping[str, Any]) -> bool:
    """Whether a container's record says why it failed."""
    return bool(failure(container) or (container["runtime_status"] or {}).get("error"))

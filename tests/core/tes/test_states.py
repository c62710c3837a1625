"""States of tasks."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Malformed
from lading.core.tes.states import (
    TaskState,
    conditions,
    is_awaited,
    is_shown,
    parse_state,
    state_of,
    transfer_phase,
)
from lading.core.tes.transfers import TransferPhase

_NOT_STARTED = "the command cannot be started: x: not found; is it in the image?"
_LOST = {"state": "Final", "container": "Cancelled", "failure": "timeout"}
_DONE = {"state": "Final", "container": "Complete", "code": 0}


def shown(
    state: str,
    container: str | None,
    *,
    priority: int = 1,
    code: int | None = None,
    failure: str = "",
    error: str = "",
    attempts: int = 0,
    **more: Any,
) -> tuple[str, str]:
    request = {
        "state": state,
        "priority": priority,
        "attempted_container_uuids": ["x"] * attempts,
        "output_uuid": "o" if container else None,
    }
    record = container and {
        "state": container,
        "exit_code": code,
        "runtime_status": {"failure": failure, "error": error} if failure else None,
    }
    if "transfer" in more:
        more["transfer"] = TransferPhase(more["transfer"])
    found = [state_of(request, record or None, legacy=old, **more) for old in (False, True)]
    return found[0], found[1]


@pytest.mark.parametrize(
    ("facts", "state", "legacy"),
    [
        ({"state": "Committed", "container": None}, "QUEUED", ""),
        ({"state": "Committed", "container": "Queued"}, "QUEUED", ""),
        ({"state": "Committed", "container": "Queued", "attempts": 1}, "INITIALIZING", "RUNNING"),
        ({"state": "Committed", "container": "Locked"}, "INITIALIZING", ""),
        ({"state": "Committed", "container": "Locked", "attempts": 1}, "INITIALIZING", "RUNNING"),
        ({"state": "Committed", "container": "Running"}, "RUNNING", ""),
        ({"state": "Committed", "container": "Complete"}, "RUNNING", ""),
        ({"state": "Committed", "container": "Running", "priority": 0}, "CANCELING", "RUNNING"),
        ({"state": "Final", "container": "Complete", "code": 0}, "COMPLETE", ""),
        (
            {"state": "Final", "container": "Complete", "code": 0, "lacks_outputs": True},
            "SYSTEM_ERROR",
            "",
        ),
        ({"state": "Final", "container": "Complete", "code": 1}, "EXECUTOR_ERROR", ""),
        ({"state": "Final", "container": "Cancelled", "failure": "oom"}, "EXECUTOR_ERROR", ""),
        (
            {"state": "Final", "container": "Cancelled", "failure": "preempted"},
            "PREEMPTED",
            "SYSTEM_ERROR",
        ),
        ({"state": "Final", "container": "Cancelled", "failure": "node"}, "SYSTEM_ERROR", ""),
        ({**_LOST, "failure": "user", "error": _NOT_STARTED}, "EXECUTOR_ERROR", ""),
        ({**_LOST, "failure": "user", "error": "output: a socket"}, "SYSTEM_ERROR", ""),
        ({"state": "Final", "container": "Cancelled", "priority": 0}, "CANCELED", ""),
        ({"state": "Final", "container": None, "priority": 0}, "CANCELED", ""),
        ({"state": "Final", "container": "Cancelled"}, "CANCELED", ""),
        ({"state": "Final", "container": None}, "SYSTEM_ERROR", ""),
        ({"state": "Uncommitted", "container": None}, "QUEUED", ""),
        ({"state": "Uncommitted", "container": None, "priority": 0}, "CANCELED", ""),
        ({"state": "Uncommitted", "container": None, "transfer": "cancelled"}, "CANCELED", ""),
        ({"state": "Uncommitted", "container": None, "transfer": "failed"}, "SYSTEM_ERROR", ""),
        ({**_DONE, "transfer": "running"}, "RUNNING", ""),
        ({**_DONE, "code": 1, "transfer": "delivering"}, "RUNNING", ""),
        ({**_LOST, "transfer": "running", "keeps": True}, "RUNNING", ""),
        ({**_LOST, "transfer": "running"}, "SYSTEM_ERROR", ""),
        ({**_LOST, "transfer": "running", "keeps": True, "priority": 0}, "CANCELED", ""),
        ({**_DONE, "transfer": "done"}, "COMPLETE", ""),
        ({**_DONE, "transfer": "failed"}, "SYSTEM_ERROR", ""),
        ({**_DONE, "code": 1, "transfer": "failed"}, "EXECUTOR_ERROR", ""),
        ({**_DONE, "transfer": "cancelled"}, "CANCELED", ""),
        ({"state": "Final", "container": None, "transfer": "running"}, "SYSTEM_ERROR", ""),
    ],
)
def test_the_table(facts: dict[str, Any], state: str, legacy: str) -> None:
    assert shown(**facts) == (state, legacy or state)


def test_filters() -> None:
    assert parse_state("QUEUED") is TaskState.QUEUED
    with pytest.raises(Malformed, match="is none of"):
        parse_state("queued")
    assert is_shown(TaskState.PREEMPTED, legacy=False)
    assert not is_shown(TaskState.PREEMPTED, legacy=True)
    assert not is_shown(TaskState.PAUSED, legacy=False)
    assert conditions(TaskState.RUNNING, legacy=False) == [["state", "=", "Committed"]]
    assert conditions(TaskState.CANCELING, legacy=False)[1] == ["priority", "=", 0]
    ended = [["state", "in", ["Final", "Uncommitted"]]]
    assert conditions(TaskState.SYSTEM_ERROR, legacy=True) == ended
    assert conditions(TaskState.SYSTEM_ERROR, legacy=False) == ended
    assert conditions(TaskState.PAUSED, legacy=False) == [["state", "=", "Final"]]
    assert conditions(TaskState.RUNNING, legacy=True) == [["state", "=", "Committed"]]
    assert transfer_phase(TaskState.RUNNING) is TransferPhase.DELIVERING
    assert transfer_phase(TaskState.QUEUED) is None
    assert len(conditions(TaskState.COMPLETE, legacy=False)) == 3


@pytest.mark.parametrize(
    ("state", "age", "expected"),
    [
        (TaskState.RUNNING, 4.9, True),
        (TaskState.RUNNING, 5.0, False),
        (TaskState.QUEUED, 1.9, True),
        (TaskState.QUEUED, 2.0, False),
        (TaskState.COMPLETE, 0.1, False),
    ],
)
def test_only_the_end_of_a_young_task_is_awaited(
    state: TaskState, age: float, expected: bool
) -> None:
    assert is_awaited(state, age, 5.0) is expected
    assert not is_awaited(state, age, 0.0)

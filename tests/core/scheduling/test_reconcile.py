"""Record against process: the table of docs/spec/dispatch, section Reconciliation, and what must
never happen.
"""

from __future__ import annotations

from itertools import product

import pytest

from lading.core.containers.container import ContainerState
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.reconcile import (
    TABLE,
    Case,
    ProcessState,
    ReconcileAction,
    RecordState,
    decide,
    record_state,
)

RELEASING = (ReconcileAction.REQUEUE, ReconcileAction.CANCEL)


def test_the_table_is_total() -> None:
    assert set(TABLE) == set(product(RecordState, ProcessState))


@pytest.mark.parametrize(
    ("state", "priority", "view", "action"),
    [
        (ContainerState.RUNNING, 5, ProcessState.ABSENT, ReconcileAction.CANCEL),
        (ContainerState.RUNNING, 5, ProcessState.EXITED, ReconcileAction.CLEAN),
        (ContainerState.RUNNING, 5, ProcessState.ALIVE, ReconcileAction.LEAVE),
        (ContainerState.RUNNING, 0, ProcessState.ALIVE, ReconcileAction.KILL),
        (ContainerState.COMPLETE, 5, ProcessState.ABSENT, ReconcileAction.FORGET),
        (ContainerState.CANCELLED, 0, ProcessState.EXITED, ReconcileAction.CLEAN),
        (ContainerState.COMPLETE, 5, ProcessState.ALIVE, ReconcileAction.LEAVE),
        (ContainerState.QUEUED, 5, ProcessState.ALIVE, ReconcileAction.KILL),
        (ContainerState.QUEUED, 5, ProcessState.ABSENT, ReconcileAction.LEAVE),
        (ContainerState.QUEUED, 0, ProcessState.ABSENT, ReconcileAction.FORGET),
        (ContainerState.LOCKED, 5, ProcessState.EXITED, ReconcileAction.CLEAN),
        (ContainerState.LOCKED, 5, ProcessState.ABSENT, ReconcileAction.REQUEUE),
        (ContainerState.LOCKED, 0, ProcessState.ALIVE, ReconcileAction.KILL),
        (ContainerState.LOCKED, 0, ProcessState.ABSENT, ReconcileAction.REQUEUE),
        (None, 0, ProcessState.ALIVE, ReconcileAction.KILL),
        (None, 0, ProcessState.ABSENT, ReconcileAction.FORGET),
    ],
)
def test_sync_rules(
    state: ContainerState | None, priority: int, view: ProcessState, action: ReconcileAction
) -> None:
    where = record_state(TrackedContainer(uuid="u", state=state, priority=priority), mine=True)
    assert decide(Case(record=where, process=view)) is action


@pytest.mark.parametrize("state", [ContainerState.LOCKED, ContainerState.RUNNING])
def test_what_another_dispatcher_holds_is_not_touched(state: ContainerState) -> None:
    where = record_state(TrackedContainer(uuid="u", state=state, priority=1), mine=False)
    assert decide(Case(record=where, process=ProcessState.ABSENT)) is ReconcileAction.FORGET
    assert decide(Case(record=where, process=ProcessState.ALIVE)) is ReconcileAction.KILL


def test_a_tidy_end_is_given_time() -> None:
    case = Case(record=RecordState.FINAL, process=ProcessState.ALIVE, lingering=True)
    assert decide(case) is ReconcileAction.KILL


@pytest.mark.parametrize("where", RecordState)
def test_nothing_is_decided_about_unknown_processes(where: RecordState) -> None:
    assert decide(Case(record=where, process=ProcessState.UNKNOWN)) is ReconcileAction.LEAVE


@pytest.mark.parametrize(
    ("where", "view", "fresh", "lingering"),
    list(product(RecordState, ProcessState, (True, False), (True, False))),
)
def test_a_record_is_released_only_when_nothing_is_left_and_it_was_read_again(
    where: RecordState, view: ProcessState, *, fresh: bool, lingering: bool
) -> None:
    action = decide(Case(record=where, process=view, fresh=fresh, lingering=lingering))
    if action in RELEASING:
        assert view is ProcessState.ABSENT
        assert fresh
    if view is ProcessState.EXITED:
        assert action is ReconcileAction.CLEAN


def test_an_unread_record_is_read_first() -> None:
    assert (
        decide(Case(record=RecordState.RUNNING, process=ProcessState.ABSENT, fresh=False))
        is ReconcileAction.REREAD
    )

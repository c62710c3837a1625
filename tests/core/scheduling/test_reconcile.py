"""Record against process: the table of docs/spec/dispatch, section Reconciliation, and what must
never happen.
"""

from __future__ import annotations

from itertools import product

import pytest

from lading.core.containers.container import State
from lading.core.scheduling.reconcile import TABLE, Action, Case, Standing, View, decide, standing

RELEASING = (Action.REQUEUE, Action.CANCEL)


def test_the_table_is_total() -> None:
    assert set(TABLE) == set(product(Standing, View))


@pytest.mark.parametrize(
    ("state", "priority", "view", "action"),
    [
        (State.RUNNING, 5, View.ABSENT, Action.CANCEL),
        (State.RUNNING, 5, View.EXITED, Action.CLEAN),
        (State.RUNNING, 5, View.ALIVE, Action.LEAVE),
        (State.RUNNING, 0, View.ALIVE, Action.KILL),
        (State.COMPLETE, 5, View.ABSENT, Action.FORGET),
        (State.CANCELLED, 0, View.EXITED, Action.CLEAN),
        (State.COMPLETE, 5, View.ALIVE, Action.LEAVE),
        (State.QUEUED, 5, View.ALIVE, Action.KILL),
        (State.QUEUED, 5, View.ABSENT, Action.LEAVE),
        (State.QUEUED, 0, View.ABSENT, Action.FORGET),
        (State.LOCKED, 5, View.EXITED, Action.CLEAN),
        (State.LOCKED, 5, View.ABSENT, Action.REQUEUE),
        (State.LOCKED, 0, View.ALIVE, Action.KILL),
        (State.LOCKED, 0, View.ABSENT, Action.REQUEUE),
        (None, 0, View.ALIVE, Action.KILL),
        (None, 0, View.ABSENT, Action.FORGET),
    ],
)
def test_sync_rules(state: State | None, priority: int, view: View, action: Action) -> None:
    assert decide(Case(standing=standing(state, priority=priority, mine=True), view=view)) is action


@pytest.mark.parametrize("state", [State.LOCKED, State.RUNNING])
def test_what_another_dispatcher_holds_is_not_touched(state: State) -> None:
    where = standing(state, priority=1, mine=False)
    assert decide(Case(standing=where, view=View.ABSENT)) is Action.FORGET
    assert decide(Case(standing=where, view=View.ALIVE)) is Action.KILL


def test_a_tidy_end_is_given_time() -> None:
    case = Case(standing=Standing.FINAL, view=View.ALIVE, lingering=True)
    assert decide(case) is Action.KILL


@pytest.mark.parametrize("where", Standing)
def test_nothing_is_decided_about_unknown_processes(where: Standing) -> None:
    assert decide(Case(standing=where, view=View.UNKNOWN)) is Action.LEAVE


@pytest.mark.parametrize(
    ("where", "view", "fresh", "lingering"),
    list(product(Standing, View, (True, False), (True, False))),
)
def test_a_record_is_released_only_when_nothing_is_left_and_it_was_read_again(
    where: Standing, view: View, *, fresh: bool, lingering: bool
) -> None:
    action = decide(Case(standing=where, view=view, fresh=fresh, lingering=lingering))
    if action in RELEASING:
        assert view is View.ABSENT
        assert fresh
    if view is View.EXITED:
        assert action is Action.CLEAN


def test_an_unread_record_is_read_first() -> None:
    assert decide(Case(standing=Standing.RUNNING, view=View.ABSENT, fresh=False)) is Action.REREAD

"""States of runs from the numbers of their steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.request_status import RequestStatus
from lading.core.runs.states import (
    RunCounts,
    RunOutcome,
    RunState,
    count_steps,
    run_state,
    state_with_runner,
)

NUMBERS = st.integers(0, 3)
COUNTS = st.builds(
    RunCounts,
    waiting=NUMBERS,
    running=NUMBERS,
    done=NUMBERS,
    failed=NUMBERS,
    cancelled=NUMBERS,
    draft=NUMBERS,
)


@pytest.mark.parametrize(
    ("counts", "outcome", "state"),
    [
        (RunCounts(), None, RunState.WAITING),
        (RunCounts(), RunOutcome.DONE, RunState.DONE),
        (RunCounts(), RunOutcome.FAILED, RunState.FAILED),
        (RunCounts(), RunOutcome.CANCELLED, RunState.CANCELLED),
        (RunCounts(draft=1), None, RunState.WAITING),
        (RunCounts(waiting=2), None, RunState.WAITING),
        (RunCounts(waiting=2, done=1), None, RunState.RUNNING),
        (RunCounts(running=1), RunOutcome.FAILED, RunState.RUNNING),
        (RunCounts(done=1), None, RunState.DONE),
        (RunCounts(done=1, failed=1, cancelled=1), None, RunState.FAILED),
        (RunCounts(done=1, cancelled=1), None, RunState.CANCELLED),
        (RunCounts(done=1), RunOutcome.FAILED, RunState.FAILED),
        (RunCounts(done=1, failed=1), RunOutcome.DONE, RunState.DONE),
    ],
)
def test_states(counts: RunCounts, outcome: RunOutcome | None, state: RunState) -> None:
    assert run_state(counts, outcome) is state


@pytest.mark.parametrize(
    ("counts", "runner", "state"),
    [
        (RunCounts(), RequestStatus.WAITING, RunState.WAITING),
        (RunCounts(running=1), RequestStatus.WAITING, RunState.RUNNING),
        (RunCounts(failed=1), RequestStatus.RUNNING, RunState.RUNNING),
        (RunCounts(failed=1), RequestStatus.DONE, RunState.DONE),
        (RunCounts(), RequestStatus.DRAFT, RunState.WAITING),
        (RunCounts(done=1), RequestStatus.CANCELLED, RunState.CANCELLED),
    ],
)
def test_a_runner_decides(counts: RunCounts, runner: RequestStatus, state: RunState) -> None:
    assert state_with_runner(counts, runner) is state


@given(COUNTS, st.none() | st.sampled_from(RunOutcome))
def test_a_run_has_ended_only_without_live_steps(
    counts: RunCounts, outcome: RunOutcome | None
) -> None:
    state = run_state(counts, outcome)
    if counts.live:
        assert state in (RunState.WAITING, RunState.RUNNING)
    else:
        assert state is not RunState.RUNNING
    if outcome is not RunOutcome.DONE:
        assert (state is RunState.DONE) <= (counts.failed == counts.cancelled == 0)


@given(COUNTS)
def test_numbers_add_up(counts: RunCounts) -> None:
    shown = counts.shown()
    assert shown["total"] == counts.total == counts.live + counts.finished + counts.draft
    assert 0 <= counts.progress <= 1
    assert (counts.progress == 1) == (counts.finished == counts.total > 0)
    numbers = {status: getattr(counts, str(status)) for status in RequestStatus}
    assert count_steps(numbers, reused=counts.reused) == counts


def test_steps_that_were_submitted_again_count_apart() -> None:
    numbers = {RequestStatus.DONE: 2, RequestStatus.FAILED: 2}
    counts = count_steps(numbers, repeated=[RequestStatus.FAILED])
    assert (counts.done, counts.failed, counts.repeated, counts.total) == (2, 1, 1, 3)

"""Ends of runs that are told."""

from __future__ import annotations

from lading.core.runs.attempts import RunAttempt
from lading.core.runs.run_ends import SETTLED, ToldEnd, end_line, next_end, settling_seconds
from lading.core.runs.states import RunCounts, RunState

FIRST = RunAttempt(number=1)
DONE = RunCounts(done=2)


def told(attempt: int = 1, number: int = 1, state: str = "done", finished: int = 2) -> ToldEnd:
    return ToldEnd(attempt=attempt, number=number, state=state, finished=finished)


def test_an_end_is_told_once() -> None:
    assert next_end(None, FIRST, DONE, RunState.DONE) == told()
    assert next_end(told(), FIRST, DONE, RunState.DONE) is None
    # A step that was deleted is no news.
    assert next_end(told(), FIRST, RunCounts(done=1), RunState.DONE) is None


def test_a_run_that_goes_on_has_not_ended() -> None:
    assert next_end(None, FIRST, RunCounts(), RunState.WAITING) is None
    assert next_end(None, FIRST, RunCounts(done=1, running=1), RunState.RUNNING) is None
    assert next_end(None, FIRST, RunCounts(waiting=1), RunState.DONE) is None


def test_a_further_end_has_the_next_number() -> None:
    more = RunCounts(done=3)
    assert next_end(told(), FIRST, more, RunState.DONE) == told(number=2, finished=3)
    failed = next_end(told(), FIRST, DONE, RunState.FAILED)
    assert failed == told(number=2, state="failed")
    assert next_end(told(number=0), FIRST, more, RunState.DONE) == told(number=1, finished=3)


def test_an_attempt_begins_with_the_first_end() -> None:
    second = RunAttempt(number=2)
    assert next_end(told(number=3), second, DONE, RunState.DONE) == told(attempt=2)
    # An attempt before the one that was told.
    assert next_end(told(attempt=3), second, DONE, RunState.DONE) is None


def test_an_end_counts_at_once_where_nothing_can_follow() -> None:
    assert settling_seconds(FIRST) == SETTLED
    assert settling_seconds(RunAttempt(number=1, ended_at="t")) == 0
    assert settling_seconds(RunAttempt(number=1, source={"kind": "template"})) == 0


def test_the_end_in_words() -> None:
    counts = {"done": 48, "total": 50, "failed": 1, "cancelled": 0, "reused": 3}
    run = {"attempt": 2, "number": 1, "state": "failed", "counts": counts}
    assert end_line(run) == "attempt 2 failed: 48 of 50 done, 1 failed, 3 reused"
    assert end_line({**run, "number": 3, "counts": None}) == "attempt 2, end 3 failed: 0 of 0 done"

"""Attempts of a run: begun, joined, ended, stored and read again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.runs import attempts
from lading.core.runs.attempts import MOST_ATTEMPTS, RunAttempt
from lading.core.runs.states import RunOutcome

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
PARAMS = st.dictionaries(st.text(max_size=3), VALUES, max_size=3)
SESSIONS = st.sampled_from(("", "a", "b"))


def fresh(session: str = "", **values: Any) -> RunAttempt:
    return RunAttempt(number=0, began_at="5", since="4", session=session, user="u", **values)


def begun(*sessions: str) -> tuple[RunAttempt, ...]:
    known: tuple[RunAttempt, ...] = ()
    for session in sessions:
        known, _ = attempts.begin(known, fresh(session))
    return known


def test_a_session_joins_its_attempt_and_another_one_begins_the_next() -> None:
    known, first = attempts.begin((), fresh("a", params={"k": 1}))
    known, joined = attempts.begin(known, fresh("a", params={"m": 2}))
    assert (len(known), joined.number, joined.params) == (1, first.number, {"k": 1, "m": 2})
    known, second = attempts.begin(known, fresh("b"))
    assert [attempt.number for attempt in known] == [1, 2]
    # The latest attempt alone is joined by its session.
    known, third = attempts.begin(known, fresh("a"))
    assert (second.number, third.number) == (2, 3)
    known, fourth = attempts.begin(known, fresh())
    known, fifth = attempts.begin(known, fresh())
    assert (fourth.number, fifth.number) == (4, 5)


def test_an_attempt_is_joined_by_its_number_and_is_under_way_again() -> None:
    known = attempts.end(begun("a", "b"), number=1, now="9", outcome=RunOutcome.FAILED, note="n")
    assert (known[0].outcome, known[0].ended_at, known[0].note) == (RunOutcome.FAILED, "9", "n")
    known, joined = attempts.begin(known, fresh(source={"script": "p"}), number=1)
    assert (joined.number, joined.outcome, joined.ended_at) == (1, None, None)
    assert joined.source == {"script": "p"}
    with pytest.raises(Invalid, match="no attempt 7"):
        attempts.begin(known, fresh(), number=7)
    with pytest.raises(Invalid, match="no attempt 7"):
        attempts.end(known, number=7, now="9", outcome=RunOutcome.DONE)
    with pytest.raises(Invalid, match="no attempt 1"):
        attempts.end((), number=None, now="9", outcome=RunOutcome.DONE)


@pytest.mark.parametrize("name", ["params", "source"])
def test_long_values_are_refused(name: str) -> None:
    values: dict[str, Any] = {name: {"k": "x" * attempts.MOST_BYTES}}
    with pytest.raises(Invalid, match=f"{name}: has"):
        attempts.begin((), replace(fresh(), **values))


def test_an_attempt_reaches_back_to_a_request_that_was_there_before() -> None:
    known = begun("a")
    assert attempts.reach_back(known, 1, "3")[0].since == "3"
    assert attempts.reach_back(known, 1, "7") == known
    assert attempts.reach_back(known, 2, "3") == known


@given(st.lists(st.tuples(SESSIONS, PARAMS), max_size=60))
def test_what_is_stored_is_read_again(begins: list[tuple[str, dict[str, Any]]]) -> None:
    known: tuple[RunAttempt, ...] = ()
    for session, params in begins:
        known, attempt = attempts.begin(known, fresh(session, params=params))
        assert attempts.find_attempt(known, None) == attempt
        assert attempts.find_attempt(known, attempt.number) == attempt
    assert len(known) <= MOST_ATTEMPTS
    properties = attempts.properties_of(known)
    assert attempts.is_run(properties)
    assert attempts.attempts_of(properties) == known
    if known:
        ended = attempts.end(known, number=None, now="9", outcome=RunOutcome.CANCELLED)
        assert attempts.attempts_of(attempts.properties_of(ended)) == ended


@given(JSON)
def test_whatever_a_client_stores_is_read(value: Any) -> None:
    for properties in ({attempts.ATTEMPTS: value}, {attempts.ATTEMPTS: [value]}):
        for attempt in attempts.attempts_of(properties):
            assert attempt.number > 0
    entry = {"number": 1, "began_at": value, "params": value, "outcome": value, "ended_at": value}
    (attempt,) = attempts.attempts_of({attempts.ATTEMPTS: [entry, entry]})
    assert isinstance(attempt.params, dict)
    assert not attempts.is_run(value) or value == {attempts.RUN: True}


@pytest.mark.parametrize("name", [None, 5, "", "  ", "a/b", "a#2", "a\nb", "x" * 300])
def test_bad_names(name: object) -> None:
    with pytest.raises(Invalid, match="name: "):
        attempts.check_name(name)


def test_a_good_name() -> None:
    assert attempts.check_name(" cohort 7, März ") == "cohort 7, März"


def test_the_attempt_that_tells_most() -> None:
    first = RunAttempt(number=1, outcome=RunOutcome.DONE)
    second = RunAttempt(number=2, outcome=RunOutcome.FAILED)
    third = RunAttempt(number=3)
    every = (first, second, third)
    assert attempts.exemplary(every, 4) is third
    assert attempts.exemplary(every, 3) is first
    assert attempts.exemplary((second, third), 3) is second
    assert attempts.exemplary(every, 1) is None

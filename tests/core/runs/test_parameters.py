"""Parameters of calls about runs."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.runs import parameters
from lading.core.runs.states import RunState

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())


@given(VALUES)
def test_whatever_is_sent_is_read_or_refused(value: object) -> None:
    with contextlib.suppress(Invalid):
        number = parameters.parse_number(value)
        assert number is None or number > 0
    for read in (parameters.parse_state, parameters.parse_position):
        with contextlib.suppress(Invalid):
            read(value)


def test_good_values() -> None:
    assert [parameters.parse_number(value) for value in (None, "", 3, "4")] == [None, None, 3, 4]
    assert parameters.parse_limit({}, 5, 9) == 5
    assert parameters.parse_limit({"limit": 40}, 5, 9) == 9
    assert parameters.parse_state("done") is RunState.DONE
    assert parameters.parse_state("") is None
    moment = "2026-01-02T03:04:05Z"
    assert parameters.parse_position(f"{moment} u") == (moment, "u")
    assert parameters.parse_position(None) is None
    assert (parameters.parse_text("n", None), parameters.parse_text("n", "x")) == ("", "x")
    assert (parameters.parse_object("n", None), parameters.parse_object("n", {"k": 1})) == (
        {},
        {"k": 1},
    )


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "x", "1" * 10, "\u0663"])
def test_bad_numbers(value: object) -> None:
    with pytest.raises(Invalid, match="whole number"):
        parameters.parse_number(value)


def test_other_bad_values() -> None:
    with pytest.raises(Invalid, match="1,000"):
        parameters.parse_text("n", "x" * 1001)
    with pytest.raises(Invalid, match="1,000"):
        parameters.parse_text("n", 5)
    with pytest.raises(Invalid, match="object"):
        parameters.parse_object("n", [])
    with pytest.raises(Invalid, match="state"):
        parameters.parse_state("odd")
    with pytest.raises(Invalid, match="after"):
        parameters.parse_position("odd")

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.scheduling import expected_times
from lading.core.scheduling.expected_times import RunTime, WorkOff
from tests.records import USER, make_container, make_recipe

SECONDS = st.floats(0, 1e6)


@given(st.lists(SECONDS, max_size=32))
def test_the_run_time_of_a_tool_is_among_its_runs(seconds: list[float]) -> None:
    found = expected_times.run_time(seconds)
    if found is None:
        assert not seconds
        return
    assert min(seconds) - 1e-6 <= found.low <= found.median <= found.high <= max(seconds) + 1e-6
    assert found.runs == len(seconds)
    assert found.median == pytest.approx(expected_times.usual_seconds(seconds))


@given(st.lists(SECONDS, min_size=1, max_size=8), st.lists(SECONDS, max_size=30))
def test_a_queue_is_worked_off_within_its_bounds(rests: list[float], work: list[float]) -> None:
    found = expected_times.work_off(rests, work)
    assert found is not None
    total = sum(rests) + sum(work)
    # Never faster than with all places busy, never slower than with the longest left for last.
    assert found.end >= max(total / len(rests), *rests, *work) * (1 - 1e-9)
    assert found.end <= total / len(rests) + max(*rests, *work, 0.0) + 1e-6
    assert found.start <= found.end
    # A container that waits behind more starts no earlier.
    before = expected_times.work_off(rests, work[:-1])
    assert before is not None
    assert before.start <= found.start


def test_the_order_of_a_queue() -> None:
    assert expected_times.work_off([10.0, 30.0], []) == WorkOff(10.0, 30.0)
    assert expected_times.work_off([10.0, 30.0], [5.0, 50.0, 1.0]) == WorkOff(31.0, 65.0)
    assert expected_times.work_off([], [5.0]) is None
    assert expected_times.rest_of(5.0, 2.0) == 3.0
    assert expected_times.rest_of(5.0, 5.0) == 0.0
    # A run that is late by 4 s is expected to take 2 s more.
    assert expected_times.rest_of(5.0, 9.0) == 2.0


@given(SECONDS, SECONDS)
def test_an_error_is_a_part(expected: float, waited: float) -> None:
    error = expected_times.error_of(expected, waited)
    assert 0.0 <= error <= 1.0
    assert error == expected_times.error_of(waited, expected)
    assert expected_times.error_of(expected, expected) == 0.0


@given(st.lists(st.floats(0, 1), max_size=150))
def test_four_in_five_are_right_within_the_usual_error(errors: list[float]) -> None:
    usual = expected_times.usual_error(errors)
    if len(errors) < 10:
        assert usual is None
        return
    assert usual is not None
    latest = errors[-100:]
    assert sum(one <= usual for one in latest) >= 0.8 * len(latest)
    assert usual in latest


def test_sentences() -> None:
    assert expected_times.start_sentence(230, None) == "It is expected to start in about 4 min."
    assert expected_times.start_sentence(230, 0.296) == (
        "It is expected to start in about 4 min (usually right within 30 %)."
    )
    one, many = RunTime(60.0, 60.0, 60.0, 1), RunTime(240.0, 180.0, 300.0, 9)
    assert expected_times.end_sentence(30, one) == (
        "It is expected to end in about 30 s: 1 run of its program took about 60 s."
    )
    assert expected_times.end_sentence(30, many) == (
        "It is expected to end in about 30 s: 9 runs of its program took about 4 min"
        " (about 3 min to 5 min)."
    )


def test_a_run_time_is_shown_as_json() -> None:
    found = expected_times.run_time([1.0, 2.0, 3.0])
    assert found is not None
    assert found.shown() == {"median": 2.0, "low": found.low, "high": found.high, "runs": 3}


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ([], ""),
        (["/usr/bin/bwa", "mem", "x"], "bwa"),
        (["sh", "-c", "sort x"], "sh sort x"),
        (["/bin/bash", "-e", "/in/all.sh"], "bash /in/all.sh"),
        (["python3", "-"], "python3 "),
    ],
)
def test_the_program_of_a_command(command: list[str], program: str) -> None:
    assert expected_times.program(command) == program


def test_a_tool_is_a_program_an_image_a_user_and_a_size() -> None:
    first = expected_times.tool_of(make_container(command=["sort", "a"]), 1000)
    assert expected_times.tool_of(make_container(command=["sort", "b"]), 1023) == first
    assert (first.user_uuid, first.size_class, len(first.program)) == (USER, 10, 64)
    assert expected_times.tool_of(make_container(command=["sort", "a"]), 1024) != first
    assert expected_times.tool_of(make_container(command=["uniq", "a"]), 1000) != first
    assert expected_times.tool_of(make_container(runtime_user_uuid=None), -1).user_uuid == ""


@pytest.mark.parametrize(
    ("seconds", "expected"), [([], None), ([0.1], 1), ([100.0, 20.0, 30.4], 30)]
)
def test_a_new_container_has_the_median_run_time_of_its_tool(
    seconds: list[float], expected: int | None
) -> None:
    recipe = make_recipe(scheduling_parameters={"partitions": ["a"]})
    found = expected_times.with_run_time(recipe, seconds).scheduling_parameters
    assert (found["partitions"], found.get("expected_run_time")) == (["a"], expected)

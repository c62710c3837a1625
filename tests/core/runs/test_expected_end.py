"""Expected ends of runs."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.quantities import later, parse_time
from lading.core.runs.expected_end import ExpectedStep, expect_end, work_off
from lading.core.runs.step_groups import RunStep, read_step

T0 = "2026-01-02T03:04:05.000000000Z"
NOW = parse_time(T0).timestamp() + 100


def step(uuid: str, state: str = "waiting", **more: Any) -> RunStep:
    usual = {"name": uuid[0], "state": state, "is_reused": False, "created_at": T0}
    return read_step({"uuid": uuid, **usual, **more})


def done(uuid: str, begin: float, end: float, **more: Any) -> RunStep:
    times = {"started_at": later(T0, begin), "finished_at": later(T0, end)}
    return step(uuid, "done", created_at=later(T0, begin), **times, **more)


def running(uuid: str, begin: float, **more: Any) -> RunStep:
    return step(uuid, "running", started_at=later(T0, begin), **more)


def waiting(key: str, seconds: float | None, *needs: str) -> ExpectedStep:
    return ExpectedStep(key=key, seconds=seconds, needs=needs)


@pytest.mark.parametrize(
    ("steps", "places", "end"),
    [
        ([], 1, 30),
        ([waiting("b", 10)], 1, 40),
        ([waiting("b", 10)], 2, 30),
        ([waiting("b", 10, "a"), waiting("c", 10, "b")], 2, 50),
        ([waiting("b", 10, "gone"), waiting("c", 5)], 1, 45),
        ([waiting("b", None)], 1, None),
    ],
)
def test_steps_are_worked_off(steps: list[ExpectedStep], places: int, end: float | None) -> None:
    first = ExpectedStep(key="a", seconds=50, started=NOW - 20)
    expected = None if end is None else NOW + end
    assert work_off([first, *steps], places=places, now=NOW) == expected


def test_nothing_is_expected_while_nothing_runs() -> None:
    assert work_off([waiting("a", 5)], places=3, now=NOW) is None
    assert expect_end([done("a", 0, 5)], [], {}, now=NOW) is None


def test_times_come_from_the_earlier_attempt_or_from_the_program() -> None:
    steps = [running("a2", 90), step("b2", depends_on=["a2"])]
    earlier = [done("a1", 0, 30), step("b1", "cancelled")]
    assert expect_end(steps, earlier, {}, now=NOW) is None
    assert expect_end(steps, earlier, {"a2": 1.0, "b2": 7.0}, now=NOW) == NOW + 20 + 7
    assert expect_end(steps, [], {"a2": 15.0, "b2": 7.0}, now=NOW) == NOW + 5 + 7


def test_steps_of_the_earlier_attempt_are_to_come() -> None:
    steps = [done("a2", 0, 20), running("b2", 90, name="b")]
    earlier = [
        done("a1", 0, 30), done("b1", 30, 60), done("c1", 60, 65), done("d1", 61, 100),
        step("e1", "failed"), done("f1", 62, 64, depends_on=["a1"]),
    ]  # fmt: skip
    # c follows b by its times; d ran beside c and f.
    assert expect_end(steps, earlier, {}, now=NOW) == NOW + 39
    assert expect_end(steps, earlier, {}, now=NOW, is_over=True) == NOW + 20
    other = [*steps, step("x2")]
    assert expect_end(other, earlier, {"x2": 1.0}, now=NOW) == NOW + 20


def test_as_many_run_at_a_time_as_before() -> None:
    steps = [running("a2", 90), step("a3"), step("a4")]
    earlier = [done("a5", 0, 30), done("a6", 0, 30), done("a7", 0, 30), done("b", 0, 9)]
    reused = [step("a8", "done", started_at=T0, is_reused=True) for _ in range(9)]
    assert expect_end([*steps], earlier, {}, now=NOW, is_over=True) == NOW + 30
    times = {"a2": 30.0, "a3": 30.0, "a4": 30.0}
    assert expect_end([*reused, *steps], [], times, now=NOW) == NOW + 80


def test_a_step_without_a_start_has_not_begun() -> None:
    assert expect_end([step("a", "running")], [], {"a": 5.0}, now=NOW) is None

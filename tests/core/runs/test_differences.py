"""Two runs, step by step, and the first cause of their differences."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lading.core.runs.differences import RunComparison, StepReason, compare_runs
from lading.core.runs.step_groups import RunStep, read_step

RUN: dict[str, Any] = {"params": {}, "source": {}}


def step(uuid: str, name: str, **more: Any) -> RunStep:
    usual = {"state": "done", "is_reused": False, "created_at": "1", "container_image": "i"}
    return read_step({"uuid": uuid, "name": name, "output": f"out-{uuid}", **usual, **more})


def compared(before: list[RunStep], after: list[RunStep]) -> RunComparison:
    return compare_runs(RUN, RUN, before, after)


def pipeline(command: str, output: str, *, last: str = "z") -> list[RunStep]:
    """Two steps, of which the second reads the output of the first."""
    return [
        step("a", "align", command=[command], output=output, inputs=["reads"]),
        step("b", "sort", command=["sort"], inputs=[output], output=last),
    ]


def test_a_step_that_reads_another_output_is_no_cause() -> None:
    found = compared(pipeline("x", "1"), pipeline("y", "2", last="w"))
    assert [change.reasons for change in found.changes] == [(StepReason.COMMAND,), ()]
    assert found.first is found.changes[0]
    assert [change.has_other_output for change in found.changes] == [True, True]
    assert found.equal == 0


def test_equal_runs() -> None:
    found = compared(pipeline("x", "1"), pipeline("x", "1"))
    assert (found.first, found.changes, found.equal) == (None, (), 2)


def test_reasons() -> None:
    before = step("a", "s", command=["x"], inputs=["h"], output="1")
    for changes, reasons in (
        ({"container_image": "j"}, (StepReason.IMAGE,)),
        ({"inputs": ["k"], "output": "2"}, (StepReason.INPUT,)),
        ({"output": "2"}, (StepReason.OUTPUT,)),
        ({"state": "failed", "output": ""}, (StepReason.STATE,)),
        ({"state": "waiting"}, ()),
        ({"container_image": "", "output": "", "state": "cancelled"}, ()),
    ):
        usual: dict[str, Any] = {"command": ["x"], "inputs": ["h"], "output": "1"}
        (change,) = compared([before], [step("b", "s", **{**usual, **changes})]).changes
        assert change.reasons == reasons


def test_values_and_steps_of_one_run_alone() -> None:
    before = {"params": {"k": 1, "m": 2}, "source": {"commit": "a"}}
    after = {"params": {"k": 3, "n": 2}, "source": {"commit": "a"}}
    found = compare_runs(before, after, [step("a", "a")], [step("b", "b")])
    assert [(change.name, change.before, change.after) for change in found.params] == [
        ("k", 1, 3),
        ("m", 2, None),
        ("n", None, 2),
    ]
    assert found.source == ()
    assert [each.name for each in found.only_before] == ["a"]
    assert [each.name for each in found.only_after] == ["b"]


NAMES = st.lists(st.sampled_from(("a", "b", "c")), max_size=6)


@given(NAMES, NAMES)
def test_each_step_is_counted_once(first: list[str], second: list[str]) -> None:
    before = [step(f"x{number}", name) for number, name in enumerate(first)]
    after = [step(f"y{number}", name) for number, name in enumerate(second)]
    found = compared(before, after)
    pairs = found.equal + len(found.changes)
    assert pairs + len(found.only_before) == len(before)
    assert pairs + len(found.only_after) == len(after)

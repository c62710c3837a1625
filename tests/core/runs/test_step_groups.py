"""Steps of a run in groups, in the order of the data."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lading.core.ids import EMPTY_PDH
from lading.core.request_status import RequestStatus
from lading.core.runs import step_groups
from lading.core.runs.states import RunState

T1, T2 = "2026-01-02T03:04:05.000000000Z", "2026-01-02T03:04:07.500000000Z"


def item(uuid: str, name: str | None = "s", **more: Any) -> dict[str, Any]:
    usual = {"name": name, "state": "done", "is_reused": False, "created_at": T1}
    return {"uuid": uuid, **usual, **more}


def test_an_item_is_read() -> None:
    step = step_groups.read_step(
        item(
            "a",
            "sort.17",
            command=["/bin/sort", "x"],
            state="failed",
            exit_code=3,
            started_at=T1,
            finished_at=T2,
            usage={"memory": 5},
            cost=0.5,
        )
    )
    assert (step.group, step.seconds, step.fault, step.memory) == ("sort", 2.5, "exit code 3", 5)
    named = step_groups.read_step(item("a", None, command=["/bin/sort"]))
    assert (named.name, named.group, named.fault, named.seconds) == ("sort", "sort", "", None)
    marked = step_groups.read_step(item("a", "x.1", properties={"lading_step": "align"}))
    assert marked.group == "align"
    odd = step_groups.read_step(item("a", None, properties={"lading_step": 5}, exit_code=0))
    assert (odd.name, odd.group) == ("(no name)", "(no name)")
    status = {"error": "no memory", "warning": "w"}
    failed = step_groups.read_step(item("a", state="failed", runtime_status=status))
    assert (failed.fault, failed.warning) == ("no memory", "w")


def test_needs_by_requests_and_by_contents() -> None:
    steps = [
        step_groups.read_step(one)
        for one in (
            item("a", output="h1"),
            item("b", depends_on=["a", "stranger", "b"], output=EMPTY_PDH),
            item("c", inputs=["h1", EMPTY_PDH], output="h2"),
            item("d", inputs=["h2", "h1"], depends_on=["a"]),
        )
    ]
    needs = step_groups.needs_of(steps)
    assert needs == {"a": (), "b": ("a",), "c": ("a",), "d": ("a", "c")}


def test_groups_in_the_order_of_the_data_and_as_a_tree() -> None:
    items = [
        item("m", "merge", depends_on=["a1", "a2"], state="waiting"),
        item("a1", "align.1", depends_on=["f"], cost=1.0, started_at=T1, finished_at=T2),
        item("a2", "align.2", depends_on=["f"], is_reused=True, cost=1.0),
        item("f", "fetch"),
        item("q", "report", state="failed"),
    ]
    groups = step_groups.group_steps([step_groups.read_step(one) for one in items])
    tree = [(depth, group.name) for depth, group in step_groups.tree_of(groups)]
    assert tree == [(0, "fetch"), (1, "align"), (2, "merge"), (0, "report")]
    align = next(group for group in groups if group.name == "align")
    assert (align.counts.done, align.counts.reused, align.state) == (2, 1, RunState.DONE)
    assert (align.seconds, align.cost) == (2.5, 1.0)
    failed = step_groups.failures_of(step for group in groups for step in group.steps)
    assert [step.uuid for step in failed] == ["q"]


NAMES = st.sampled_from(("a", "b", "c", "d"))


@given(st.lists(st.tuples(NAMES, st.lists(st.integers(0, 9), max_size=3)), max_size=10))
def test_every_step_is_in_one_group_and_every_group_once_in_the_tree(
    made: list[tuple[str, list[int]]],
) -> None:
    steps = [
        step_groups.read_step(item(str(number), name, depends_on=[str(other) for other in needs]))
        for number, (name, needs) in enumerate(made)
    ]
    groups = step_groups.group_steps(steps)
    assert sorted(step.uuid for group in groups for step in group.steps) == sorted(
        step.uuid for step in steps
    )
    places = {group.name: number for number, group in enumerate(groups)}
    for group in groups:
        assert all(places[other] < places[group.name] for other in group.needs)
    tree = [group.name for _, group in step_groups.tree_of(groups)]
    assert sorted(tree) == sorted(places)
    total = sum(group.counts.total for group in groups)
    assert total == len(steps)
    assert all(step.state is RequestStatus.DONE for step in steps)


def test_inputs_of_a_run_are_made_by_no_step_of_it() -> None:
    steps = [
        step_groups.read_step(item("a", "a", inputs=["reads", EMPTY_PDH], output="1")),
        step_groups.read_step(item("b", "b", inputs=["1", "genome"], output="2")),
        step_groups.read_step(item("c", "c.1", inputs=["reads", "2"])),
        step_groups.read_step(item("d", "c.2", inputs=["reads"])),
    ]
    inputs = step_groups.inputs_of(steps)
    assert [(read.content, read.readers) for read in inputs] == [
        ("reads", ("a", "c")),
        ("genome", ("b",)),
    ]

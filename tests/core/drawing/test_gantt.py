"""Layout of timelines."""

from __future__ import annotations

from typing import Any

from lading.core.drawing.gantt import TimelineBar, TimelineTask, lay_out, place_at_use


def _task(
    name: str, made: float, started: float | None, ended: float | None, **more: Any
) -> TimelineTask:
    return TimelineTask(
        key=f"k-{name}", name=name, state="x", created=made, started=started, ended=ended, **more
    )


def _names(tasks: list[TimelineTask]) -> list[str]:
    return [row.name for row in lay_out(tasks, now=9e9, width=10, most=99).rows]


def test_waiting_and_running_are_apart() -> None:
    found = lay_out([_task("a", 10, 20, 30), _task("b", 15, None, None)], now=60, width=100, most=9)
    first, second = found.rows
    assert (found.begin, found.end, found.left_out) == (10, 60, 0)
    assert (first.waiting, first.running) == (
        TimelineBar(x=0, width=20),
        TimelineBar(x=20, width=20),
    )
    assert (second.waiting, second.running) == (TimelineBar(x=10, width=90), None)


def test_an_older_result_begins_with_its_request() -> None:
    (row,) = lay_out([_task("a", 50, 10, 20)], now=60, width=100, most=9).rows
    assert row.waiting.width == 0
    assert row.running == TimelineBar(x=0, width=0)


def test_many_tasks_are_grouped_by_step() -> None:
    tasks = [_task(f"sort.{number}", number, number + 1, 10) for number in range(4)]
    found = lay_out([*tasks, _task("merge", 9, 9, 10)], now=10, width=10, most=4)
    assert [(row.name, len(row.tasks), row.states) for row in found.rows] == [
        ("sort", 4, {"x": 4}),
        ("merge", 1, {"x": 1}),
    ]


def test_steps_beyond_the_limit_are_counted() -> None:
    tasks = [_task(name, 0, None, 1) for name in "abc"]
    assert lay_out(tasks, now=1, width=10, most=2).left_out == 1


def test_no_task() -> None:
    assert lay_out([], now=5, width=10, most=2).rows == ()


def test_a_task_comes_after_those_that_it_needs() -> None:
    # All were made by one call.
    tasks = [
        _task("align", 5, 5, 5, needs=("k-trim",)),
        _task("report", 5, 5, 5, needs=("k-align", "k-sort", "k-gone")),
        _task("sort", 5, 5, 5, needs=("k-align",)),
        _task("trim", 5, 5, 5),
    ]
    assert _names(tasks) == ["trim", "align", "sort", "report"]
    circle = [_task("a", 1, 1, 1, needs=("k-b",)), _task("b", 2, 2, 2, needs=("k-a",))]
    assert _names(circle) == ["b", "a"]
    assert len(place_at_use(circle)) == 2


def test_a_long_chain_is_no_recursion() -> None:
    tasks = [_task(f"t{n}", 1, 1, 1, needs=(f"k-t{n + 1}",)) for n in range(5000)]
    assert len(lay_out(place_at_use(tasks), now=2, width=1, most=9999).rows) == 5000


def test_results_of_earlier_runs_are_placed_at_their_use() -> None:
    day = 86400.0
    tasks = [
        _task("report", 9 * day, 9 * day + 1, 9 * day + 2, needs=("k-sort", "k-count")),
        # Of this run, which took its time.
        _task("sort", 9 * day - 100, 9 * day - 90, 9 * day - 50, needs=("k-old",)),
        _task("count", day, day, day + 5, needs=("k-older",)),
        _task("old", 2 * day, 2 * day, 2 * day + 1),
        _task("older", 0, 0, 9 * day - 9),
    ]
    placed = {one.name: one for one in place_at_use(tasks)}
    assert [one.name for one in placed.values() if one.is_earlier] == ["count", "old", "older"]
    assert (placed["count"].created, placed["count"].ended) == (9 * day, 9 * day)
    assert placed["old"].created == 9 * day - 100
    assert placed["older"].created == 9 * day
    assert placed["sort"] == tasks[1]
    names = _names(list(placed.values()))
    assert names == ["old", "sort", "older", "count", "report"]


def test_the_steps_of_a_reused_workflow_are_placed_at_its_use() -> None:
    tasks = [
        _task("runner", 5000, 10, 20, is_reused=True),
        _task("step", 12, 13, 14, maker="k-runner"),
        _task("own", 5001, 5002, 5003, maker="k-runner"),
    ]
    placed = place_at_use(tasks)
    assert [(one.created, one.is_earlier) for one in placed] == [
        (5000, False), (5000, True), (5001, False)
    ]  # fmt: skip
    assert _names(placed) == ["runner", "step", "own"]
    # What a runner does now is where it is, however long ago it was asked for.
    fresh = [_task("runner", 1, 1, None), _task("step", 9000, 9000, 9001, maker="k-runner")]
    assert place_at_use(fresh) == fresh

"""Layout of timelines."""

from __future__ import annotations

from lading.core.drawing.gantt import TimelineBar, TimelineTask, lay_out


def _task(name: str, made: float, started: float | None, ended: float | None) -> TimelineTask:
    return TimelineTask(
        key=f"k-{name}", name=name, state="x", made=made, started=started, ended=ended
    )


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

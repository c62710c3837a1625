"""Layout of a timeline: a bar of waiting and a bar of running for each task, or for each step when
there are too many tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lading.core.drawing.step_names import step_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTask:
    """A task; times in seconds. `started` is None for one that has not started, `ended` for one
    that goes on.
    """

    key: str
    name: str
    state: str
    made: float
    started: float | None
    ended: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBar:
    """A part of the width of the timeline."""

    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """A row. `tasks` has one task, or those of a step."""

    name: str
    tasks: tuple[TimelineTask, ...]
    waiting: TimelineBar
    running: TimelineBar | None

    @property
    def states(self) -> dict[str, int]:
        """The states of the tasks with their numbers, in the order of the tasks."""
        found: dict[str, int] = {}
        for one in self.tasks:
            found[one.state] = found.get(one.state, 0) + 1
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rows in the order of their first task; `left_out` counts rows beyond the limit."""

    rows: tuple[TimelineRow, ...]
    begin: float
    end: float
    left_out: int


def lay_out(tasks: Sequence[TimelineTask], *, now: float, width: float, most: int) -> Timeline:
    """The timeline of tasks, at most `most` rows; a step is one row when there are more tasks."""
    ordered = sorted(tasks, key=lambda one: (one.made, one.name, one.key))
    begin = min((one.made for one in ordered), default=now)
    end = max((_end(one, now) for one in ordered), default=now)
    groups: dict[str, list[TimelineTask]] = {}
    for one in ordered:
        groups.setdefault(step_name(one.name) if len(ordered) > most else one.key, []).append(one)
    scale = width / max(end - begin, 1e-3)
    rows = tuple(
        _row(some, begin=begin, scale=scale, now=now) for some in list(groups.values())[:most]
    )
    return Timeline(rows=rows, begin=begin, end=end, left_out=len(groups) - len(rows))


def _end(task: TimelineTask, now: float) -> float:
    return max(task.made, now if task.ended is None else task.ended)


def _row(tasks: list[TimelineTask], *, begin: float, scale: float, now: float) -> TimelineRow:
    made = tasks[0].made
    end = max(_end(one, now) for one in tasks)
    starts = [one.started for one in tasks if one.started is not None]
    # The result of an earlier container may be older than the request.
    start = max(min(starts), made) if starts else end

    def bar(first: float, last: float) -> TimelineBar:
        return TimelineBar(
            x=round((first - begin) * scale, 1), width=round((last - first) * scale, 1)
        )

    name = tasks[0].name if len(tasks) == 1 else step_name(tasks[0].name)
    return TimelineRow(
        name=name,
        tasks=tuple(tasks),
        waiting=bar(made, start),
        running=bar(start, end) if starts else None,
    )

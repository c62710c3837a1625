"""Layout of a timeline: a bar of waiting and a bar of running for each task, or for each step when
there are too many tasks.

A task comes after those that it needs, else in the order of time. A result that was there long
before it was used would stretch the timeline to days: it is placed at its use (`place_at_use`), as
are the steps of a workflow whose result is reused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lading.core.drawing.step_names import step_name

_SAME_RUN: Final = 3600.0
"""Seconds between the end of a task and its use, above which it belongs to an earlier run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTask:
    """A task; times in seconds. `started` is None for one that has not started, `ended` for one
    that goes on. `needs` are the keys of the tasks whose results it needs, `maker` that of the task
    that made it; `is_reused`: it has the result of an earlier computation.
    """

    key: str
    name: str
    state: str
    created: float
    started: float | None
    ended: float | None
    needs: tuple[str, ...] = ()
    maker: str = ""
    is_reused: bool = False
    is_earlier: bool = False
    """It belongs to an earlier run, and is placed at its use."""


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
        for task in self.tasks:
            found[task.state] = found.get(task.state, 0) + 1
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
    ordered = _in_order(tasks)
    begin = min((task.created for task in ordered), default=now)
    end = max((_end(task, now) for task in ordered), default=now)
    groups: dict[str, list[TimelineTask]] = {}
    for task in ordered:
        groups.setdefault(step_name(task.name) if len(ordered) > most else task.key, []).append(
            task
        )
    scale = width / max(end - begin, 1e-3)
    rows = tuple(
        _row(some, begin=begin, scale=scale, now=now) for some in list(groups.values())[:most]
    )
    return Timeline(rows=rows, begin=begin, end=end, left_out=len(groups) - len(rows))


def place_at_use(tasks: Sequence[TimelineTask]) -> list[TimelineTask]:
    """The tasks; tasks of earlier runs move to the time of their use.

    A task is of an earlier run if it ended long before each task that needs it was created, or if a
    reused task made it before the request for the reuse. All tasks that such a task needs or made
    are of an earlier run too.
    """
    users: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        for need in task.needs:
            users[need].append(task.key)
        if task.maker:
            users[task.key].append(task.maker)
    placed: dict[str, TimelineTask] = {}
    by_key = {task.key: task for task in tasks}
    # The users of a task come before it.
    for key in _after_needs(list(by_key), users):
        task = by_key[key]
        by = [placed[user] for user in users[key] if user in placed]
        if by and all(_is_earlier(task, user) for user in by):
            at = min(user.created for user in by)
            task = replace(task, created=at, started=at, ended=at, is_earlier=True)
        placed[key] = task
    return [placed[task.key] for task in tasks]


def _is_earlier(task: TimelineTask, user: TimelineTask) -> bool:
    if user.is_earlier:
        return True
    if task.maker == user.key:
        return user.is_reused and task.created < user.created
    return task.ended is not None and task.ended < user.created - _SAME_RUN


def _in_order(tasks: Sequence[TimelineTask]) -> list[TimelineTask]:
    """The tasks in the order of time, each after its needs and the task that made it."""
    by_key = {
        task.key: task
        for task in sorted(tasks, key=lambda task: (task.created, task.name, task.key))
    }
    needs = {task.key: (*task.needs, task.maker) for task in tasks}
    return [by_key[key] for key in _after_needs(list(by_key), needs)]


def _after_needs(keys: Sequence[str], needs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The keys in their order, but each after its needs, as far as there is no circle."""
    begun: set[str] = set()
    all_keys = set(keys)
    for key in keys:
        # Pairs of a key and the iterator of its needs: no recursion, a chain may be long.
        stack = [(key, iter(needs.get(key, ())))] if key not in begun else []
        begun.add(key)
        while stack:
            top, needs_left = stack[-1]
            need = next(
                (
                    candidate
                    for candidate in needs_left
                    if candidate in all_keys and candidate not in begun
                ),
                None,
            )
            if need is None:
                yield top
                stack.pop()
            else:
                begun.add(need)
                stack.append((need, iter(needs.get(need, ()))))


def _end(task: TimelineTask, now: float) -> float:
    return max(task.created, now if task.ended is None else task.ended)


def _row(tasks: list[TimelineTask], *, begin: float, scale: float, now: float) -> TimelineRow:
    created = tasks[0].created
    end = max(_end(task, now) for task in tasks)
    starts = [task.started for task in tasks if task.started is not None]
    # The result of an earlier container may be older than the request.
    start = max(min(starts), created) if starts else end

    def bar(first: float, last: float) -> TimelineBar:
        return TimelineBar(
            x=round((first - begin) * scale, 1), width=round((last - first) * scale, 1)
        )

    name = tasks[0].name if len(tasks) == 1 else step_name(tasks[0].name)
    return TimelineRow(
        name=name,
        tasks=tuple(tasks),
        waiting=bar(created, start),
        running=bar(start, end) if starts else None,
    )

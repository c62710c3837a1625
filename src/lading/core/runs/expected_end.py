"""When a run is expected to end, by the times that its steps took in an earlier attempt, or that
their programs usually take.

Steps that the earlier attempt had and this one has not yet are expected to come, if all steps of
this one were in the earlier one. The steps are worked off in their order, each after those that it
needs, as many at a time as ran at a time in either attempt. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from lading.core.quantities import parse_time
from lading.core.request_status import RequestStatus
from lading.core.runs.step_groups import RunStep, needs_of
from lading.core.scheduling.expected_times import rest_of

_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStep:
    """A step that runs (since `started`), waits, or is expected to come: `seconds` is the time that
    it is expected to take, None where nothing says so; `needs` are keys of other steps.
    """

    key: str
    seconds: float | None
    started: float | None = None
    needs: tuple[str, ...] = ()


def expect_end(
    steps: Sequence[RunStep],
    earlier: Sequence[RunStep],
    usual: Mapping[str, float],
    *,
    now: float,
    is_over: bool = False,
) -> float | None:
    """When the steps of a run will have ended; None where that is not known, as while none runs.

    `earlier` are the steps of an earlier attempt, `usual` the usual seconds of the program of a
    step, by its uuid. `is_over`: the program of the run has ended, no further step comes.
    """
    live = [*_live(steps, earlier, usual), *(() if is_over else _coming(steps, earlier))]
    places = max(_most_at_a_time(steps), _most_at_a_time(earlier))
    return work_off(live, places=places, now=now)


def work_off(steps: Sequence[ExpectedStep], *, places: int, now: float) -> float | None:
    """When the last of some steps will have ended, `places` at a time, or as many as run now. None
    while none runs, or the time of one is not known.
    """
    ends: dict[str, float] = {}
    for step in steps:
        if step.seconds is None:
            return None
        if step.started is not None:
            ends[step.key] = now + rest_of(step.seconds, now - step.started)
    if not ends:
        return None
    free = [*ends.values(), *[now] * (places - len(ends))]
    heapify(free)
    for step in steps:
        if step.started is None:
            ready = max((ends.get(key, now) for key in step.needs), default=now)
            ends[step.key] = max(ready, free[0]) + (step.seconds or 0.0)
            heapreplace(free, ends[step.key])
    return max(ends.values())


def _live(
    steps: Sequence[RunStep], earlier: Sequence[RunStep], usual: Mapping[str, float]
) -> list[ExpectedStep]:
    before = _keyed(earlier)
    needs = needs_of(steps)
    live: list[ExpectedStep] = []
    for key, step in _keyed(steps).items():
        is_running = step.state is RequestStatus.RUNNING
        if is_running or step.state is RequestStatus.WAITING:
            took = before[key].seconds if key in before else None
            live.append(
                ExpectedStep(
                    key=step.uuid,
                    seconds=usual.get(step.uuid) if took is None else took,
                    started=_moment(step.started_at) if is_running else None,
                    needs=needs[step.uuid],
                )
            )
    return live


def _coming(steps: Sequence[RunStep], earlier: Sequence[RunStep]) -> list[ExpectedStep]:
    """The steps of the earlier attempt that are not there yet."""
    now, before = _keyed(steps), _keyed(earlier)
    # Another pipeline, or other names: nothing says which steps come.
    if not now.keys() <= before.keys():
        return []
    needs = needs_of(earlier)
    present = {before[key].uuid: step.uuid for key, step in now.items()}
    coming: list[ExpectedStep] = []
    previous: RunStep | None = None
    for key, step in before.items():
        if key not in now and step.state is RequestStatus.DONE:
            needed = list(needs[step.uuid])
            # A script that waits for each step before it submits the next one.
            if previous and previous.finished_at and previous.finished_at <= step.created_at:
                needed.append(previous.uuid)
            coming.append(
                ExpectedStep(
                    key=step.uuid,
                    seconds=step.seconds,
                    needs=tuple(present.get(uuid, uuid) for uuid in needed),
                )
            )
        previous = step
    return coming


def _keyed(steps: Iterable[RunStep]) -> dict[_Key, RunStep]:
    """Steps by their step and name, and their number among those of that name."""
    numbers: dict[tuple[str, str], int] = {}
    keyed: dict[_Key, RunStep] = {}
    for step in steps:
        name = (step.group, step.name)
        numbers[name] = numbers.get(name, -1) + 1
        keyed[(*name, numbers[name])] = step
    return keyed


def _most_at_a_time(steps: Iterable[RunStep]) -> int:
    """The most steps whose own containers ran at one time."""
    changes: list[tuple[str, int]] = []
    for step in steps:
        if step.started_at and not step.is_reused:
            changes.append((step.started_at, 1))
            changes += [(step.finished_at, -1)] if step.finished_at else []
    running, most = 0, 0
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most


def _moment(moment: str | None) -> float | None:
    return None if moment is None else parse_time(moment).timestamp()

"""Backfill on one machine, played on simulated time with the planner of the dispatcher: how busy
its processors are, and how long containers wait that need all of them.

Containers of one VCPU, and one in five that needs the whole machine, arrive in a random order with
random run times, the same in each row. The rows differ in what the planner knows: nothing, with no
container passing another; nothing, within `Local.BackfillLimit`; the usual run times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from bench.figures import Figure, percentile
from lading.core.resources import GIB, Resources
from lading.core.scheduling.batch_planner import apply, plan
from lading.core.scheduling.planning import FleetWorker, Snapshot, TrackedContainer

_LIMIT: Final = 600.0
_ONE: Final = Resources(vcpus=1, ram=GIB)
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class _Job:
    """A container that arrives at a time and runs for so many seconds."""

    container: TrackedContainer
    seconds: float


@dataclass(slots=True)
class _Played:
    """The seconds until all have ended, the share of the VCPUs that were busy, and the waits of
    whole-machine and small containers.
    """

    makespan: float
    busy: float
    large: list[float]
    small: list[float]


def measure(*, containers: int) -> list[Figure]:
    """Figures of so many containers on machines of 2 and of 16 VCPUs."""
    return [
        figure
        for vcpus in (2, 16)
        for name, limit, is_known in (
            ("none passes", 0.0, False),
            ("unknown times, limit 10 min", _LIMIT, False),
            ("known times", _LIMIT, True),
        )
        for figure in _figures(
            f"{vcpus} VCPUs, {name}", _play(_jobs(containers, vcpus, is_known), vcpus, limit)
        )
    ]


def _figures(name: str, played: _Played) -> Iterator[Figure]:
    note = f"VCPUs {100 * played.busy:.0f} % busy; all ended after {played.makespan / 60:.0f} min"
    for kind, waits in (("small", played.small), ("whole machine", played.large)):
        yield Figure(
            name=f"{name}: wait, {kind}",
            unit="s",
            count=len(waits),
            p50=percentile(waits, 0.5),
            p99=percentile(waits, 0.99),
            note=note,
        )


def _jobs(count: int, vcpus: int, is_known: bool) -> list[_Job]:
    source = random.Random(_SEED)  # the same jobs in each row
    jobs, at = [], 0.0
    for number in range(count):
        is_large = source.random() < 0.2
        seconds = min(1800.0, 30.0 * source.lognormvariate(0.5, 1.2))
        # As much work as the machine can do in that time, with a little room.
        at += source.expovariate(1.0) * seconds * (1.0 if is_large else 1.0 / vcpus) * 1.1
        need = Resources(vcpus=vcpus, ram=vcpus * GIB) if is_large else _ONE
        container = TrackedContainer(
            uuid=f"c{number}",
            priority=1,
            created_at=f"{number:06}",
            need=need,
            seen_at=at,
            run_time=max(1, round(seconds)) if is_known else 0,
        )
        jobs.append(_Job(container, seconds))
    return jobs


def _play(jobs: list[_Job], vcpus: int, limit: float) -> _Played:
    worker = FleetWorker(id="w", capacity=Resources(vcpus=vcpus, ram=vcpus * GIB))
    snapshot = Snapshot(workers=(worker,), passing=limit)
    seconds = {one.container.uuid: one.seconds for one in jobs}
    coming, ends = list(reversed(jobs)), dict[str, float]()
    waits: dict[str, float] = {}
    now = 0.0
    while coming or snapshot.queue or ends:
        moments = [*ends.values(), *((coming[-1].container.seen_at,) if coming else ())]
        now = min(moments)
        while coming and coming[-1].container.seen_at <= now:
            snapshot = replace(snapshot, queue=(*snapshot.queue, coming.pop().container))
        ends = {uuid: at for uuid, at in ends.items() if at > now}
        left = tuple(one for one in snapshot.workers[0].occupants if one.uuid in ends)
        snapshot = replace(snapshot, now=now, workers=(replace(worker, occupants=left),))
        decided = plan(snapshot)
        seen = {one.uuid: one.seen_at for one in snapshot.queue}
        for start in decided.starts:
            ends[start.uuid] = now + seconds[start.uuid]
            waits[start.uuid] = now - seen[start.uuid]
        snapshot = apply(snapshot, decided, now=now)
    large = {one.container.uuid for one in jobs if one.container.need.vcpus == vcpus}
    work = sum(one.seconds * one.container.need.vcpus for one in jobs)
    return _Played(
        makespan=now,
        busy=work / (now * vcpus),
        large=[wait for uuid, wait in waits.items() if uuid in large],
        small=[wait for uuid, wait in waits.items() if uuid not in large],
    )

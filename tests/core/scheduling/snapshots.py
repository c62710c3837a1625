"""Snapshots of containers and workers for the tests of planning."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import strategies as st

from lading.core.resources import Resources, total
from lading.core.scheduling.batch_planner import plan
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.planning import (
    FleetWorker,
    Occupant,
    Snapshot,
    TrackedContainer,
)

SMALL, WHOLE = Resources(1, 10), Resources(4, 40)


def entry(
    uuid: str, priority: int = 1, need: Resources = SMALL, *, created: str = "", seen: float = 0.0
) -> TrackedContainer:
    return TrackedContainer(
        uuid=uuid, priority=priority, need=need, created_at=created, seen_at=seen
    )


def worker(*occupants: Occupant, id: str = "w", capacity: Resources = WHOLE) -> FleetWorker:
    return FleetWorker(id=id, capacity=capacity, occupants=occupants)


def old(uuid: str, need: Resources = SMALL) -> Occupant:
    return Occupant(uuid=uuid, need=need)


def starts(snapshot: Snapshot) -> list[str]:
    return [one.uuid for one in plan(snapshot).starts]


needs = st.builds(Resources, st.integers(1, 6), st.integers(1, 60))
growths = st.just(Resources()) | st.builds(Resources, st.integers(0, 6), st.integers(0, 60))
times = st.integers(0, 10).map(float)
lengths = st.sampled_from([0, 0, 5, 20])
ends = st.sampled_from([math.inf, 12.0, 25.0, 100.0])


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    capacities = draw(
        st.lists(st.builds(Resources, st.integers(1, 8), st.integers(1, 80)), max_size=4)
    )
    workers = []
    for number, capacity in enumerate(capacities):
        occupants: list[Occupant] = []
        for index, (amount, began, end) in enumerate(
            draw(st.lists(st.tuples(needs, times, ends), max_size=4))
        ):
            if amount.fits(capacity - total(one.need for one in occupants)):
                uuid = f"r{number}.{index}"
                occupants.append(Occupant(uuid=uuid, need=amount, started=began, ends=end))
        workers.append(worker(*occupants, id=f"w{number}", capacity=capacity))
    rows = draw(st.lists(st.tuples(st.integers(0, 3), needs, times, growths, lengths), max_size=8))
    queue = tuple(
        replace(entry(f"q{at}", priority, amount, seen=seen), growth=growth, run_time=length)
        for at, (priority, amount, seen, growth, length) in enumerate(rows)
    )
    held = {one.uuid: "held" for one in queue if draw(st.booleans()) and draw(st.booleans())}
    return Snapshot(
        queue=queue,
        workers=tuple(workers),
        held_back=held,
        quota=draw(st.integers(0, 5)),
        now=10.0,
        passing=draw(st.sampled_from([0.0, 5.0])),
    )


def named(uuid: str, *partitions: str, need: Resources = SMALL) -> TrackedContainer:
    return TrackedContainer(uuid=uuid, priority=1, created_at="", need=need, partitions=partitions)


CARD = Gpu(stack="cuda", count=2, driver="12.2", targets=("8.6",))


def gpu_snapshot(asked: Gpu, there: Gpu | None) -> Snapshot:
    need = Resources(1, 10, gpus=asked.count)
    kinds = None if there is None else (there,)
    room = FleetWorker(id="w", capacity=Resources(4, 40, gpus=2), gpu_kinds=kinds)
    return Snapshot(queue=(replace(entry("a", need=need), gpu=asked),), workers=(room,))

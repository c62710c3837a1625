"""The plan for a large fleet: passes over VMs and waiting containers of many shapes, in processor
time and memory.

The floor is the least that anybody would have to do who looked at everything: sort the queue once
by its key.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from bench.figures import Figure, durations
from lading.core.resources import GIB, MIB, Resources
from lading.core.scheduling.cloud_limits import CloudRules, Limits
from lading.core.scheduling.cloud_planner import Planner
from lading.core.scheduling.instance_rooms import InstanceRoom
from lading.core.scheduling.instance_types import ContainerShape, InstanceType
from lading.core.scheduling.planning import TrackedContainer

FULL, INCREMENTAL, MEMORY = 150.0, 10.0, 400.0
_ROUNDS = 5
_EVENTS = 300
_Wanted = tuple[TrackedContainer, ContainerShape]


def measure(*, machines: int, waiting: int) -> list[Figure]:
    """Full passes over a fleet that is nearly full, idle, or not there yet; passes after one event;
    memory.
    """
    queue = _queue(waiting)
    one = Resources(1, 2 * GIB, 10 * GIB)
    limits = Limits(most=machines)
    figures = [
        durations(
            f"floor: sort {waiting:,} keys",
            [_cost(lambda: sorted(one.place for one, _ in queue))] * _ROUNDS,
        )
    ]
    tracemalloc.start()
    planner = _planner(queue, machines, idle=False)
    planner.decide(limits, now=0.0)
    used = tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()
    for name, idle, there in (
        ("nearly full", False, machines),
        ("all idle", True, machines),
        ("none yet", True, 0),
    ):
        costs = [_pass(queue, there, limits, idle=idle) for _ in range(_ROUNDS)]
        figures.append(durations(f"full pass, {machines:,} VMs {name}", costs, p50_limit=FULL))
    figures += _events(planner, limits, one)
    figures.append(
        Figure(
            name="memory of the planner",
            unit="MiB",
            count=1,
            rate=used,
            target=f"<= {MEMORY:g} MiB",
            met=used <= MEMORY,
        )
    )
    return figures


def _events(planner: Planner, limits: Limits, freed: Resources) -> list[Figure]:
    draw = Random(2)
    names = sorted(planner.rooms)
    ends, arrivals, leaves = [], [], []
    for number in range(_EVENTS):
        room = planner.rooms[draw.choice(names)]
        ends.append(
            _cost(
                lambda room=room: planner.put(  # type: ignore[misc]
                    replace(room, free=room.free + freed)
                ),
                planner,
                limits,
            )
        )
        new = TrackedContainer(
            uuid=f"bench-new-{number}", priority=draw.randrange(1000) << 40, created_at="2027"
        )
        shape = _shapes()[number % 7]
        arrivals.append(_cost(partial(planner.add, new, shape), planner, limits))
        leaves.append(_cost(partial(planner.remove, new.uuid), planner, limits))
    return [
        durations("pass after a container has ended", ends, p50_limit=INCREMENTAL),
        durations("pass after a container has come", arrivals, p50_limit=INCREMENTAL),
        durations("pass after a request was cancelled", leaves, p50_limit=INCREMENTAL),
    ]


def _pass(queue: list[_Wanted], machines: int, limits: Limits, *, idle: bool) -> float:
    planner = _planner(queue, machines, idle=idle)
    return _cost(lambda: planner.decide(limits, now=0.0))


def _cost(
    work: Callable[[], object], planner: Planner | None = None, limits: Limits | None = None
) -> float:
    gc.collect()
    began = time.process_time()
    work()
    if planner is not None and limits is not None:
        planner.decide(limits, now=0.0)
    return time.process_time() - began


def _types() -> tuple[InstanceType, ...]:
    return tuple(
        InstanceType(
            name=f"t{n}",
            provider_type=f"t{n}",
            resources=Resources(n, n * 4 * GIB, n * 50 * GIB),
            price=n * 0.05,
        )
        for n in (2, 4, 8, 16, 32, 64)
    )


def _shapes() -> list[ContainerShape]:
    return [
        ContainerShape(need=Resources(vcpus, vcpus * ram * GIB, disk * GIB))
        for vcpus in (1, 2, 4, 8, 16)
        for ram in (1, 2, 3, 4)
        for disk in (1, 10, 50)
    ]


def _queue(count: int) -> list[_Wanted]:
    draw, shapes = Random(1), _shapes()
    return [
        (
            TrackedContainer(
                uuid=f"bench-dz642-{number:015d}",
                priority=draw.randrange(1, 1000) << 40,
                created_at=f"2026-01-01T00:00:{number % 60:02d}.{number:06d}Z",
            ),
            draw.choice(shapes),
        )
        for number in range(count)
    ]


def _planner(queue: list[_Wanted], machines: int, *, idle: bool) -> Planner:
    draw, types = Random(3), _types()
    planner = Planner(CloudRules(types=types))
    planner.extend(queue)
    for number in range(machines):
        kind = draw.choice(types)
        cores = (
            kind.resources.vcpus
            if idle
            else int(kind.resources.vcpus * draw.choice((0, 0, 0, 0, 0.1, 0.25)))
        )
        free = Resources(cores, cores * 4 * GIB, cores * 50 * GIB)
        planner.put(InstanceRoom(f"i-{number}", kind.name, free, ready=True, empty=idle))
    return planner

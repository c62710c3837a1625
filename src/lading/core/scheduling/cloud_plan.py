"""Input, working state and outcome of the planner for a cloud.

Source: docs/spec/cloud, section Planning. `cloud_planner` plans with these values.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from lading.core.scheduling.cloud_limits import Limits
from lading.core.scheduling.instance_types import ContainerShape, InstanceType
from lading.core.scheduling.planning import Place, StartDecision, TrackedContainer

_Places = dict[ContainerShape, list[Place]]


class BlockReason(StrEnum):
    """Reason that no container of a shape can be placed."""

    NO_TYPE = "no type"
    WORKFLOWS = "workflows"
    QUOTA = "quota"
    RATE = "rate"
    BUSY = "busy"
    CAPACITY = "capacity"
    TOO_MANY = "too many"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRules:
    """How to plan.

    `workflow_fraction` of the most VMs are for containers that run workflows, 0.0 for no limit;
    `most_containers` on one VM, 0 any; `extra_ram` is bytes that a supervisor takes beside its
    container. `group` names the types that share the cloud's capacity with a type.
    """

    types: tuple[InstanceType, ...]
    price_factor: float = 1.5
    workflow_fraction: float = 0.5
    most_containers: int = 0
    extra_ram: int = 0
    group: Callable[[InstanceType], str] = lambda one: (
        f"{one.provider_type}{'-spot' if one.preemptible else ''}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPlan:
    """The decisions of one pass. Workers in `starts` are ids of rooms.

    `creates`: the room to be and its type. `retire`: empty rooms to remove. `kept`: room and gang,
    for rooms that must stay though nothing runs there yet. `unneeded`: rooms that are not ready and
    not promised to a container.
    """

    starts: tuple[StartDecision, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    creates: tuple[tuple[str, str], ...] = ()
    retire: tuple[str, ...] = ()
    unneeded: tuple[str, ...] = ()


@dataclass(slots=True)
class PlanningPass:
    """Limits and intermediate results of one pass over the queue."""

    limits: Limits
    now: float
    most_workflows: int
    left: int | None = None
    """How many more containers may be started or promised a room."""
    starts: list[StartDecision] = field(default_factory=list)
    creates: list[tuple[str, str]] = field(default_factory=list)
    guarded: bool = False
    """A room is kept for the first container that waits for the quota."""
    places: int = 0
    """How many VMs that are not there yet are the gang's that rooms are kept for."""
    freed: bool = False
    """A room is not kept any more, so others may have it."""


class CloudQueue:
    """Containers that wait for a room, and those that were promised one that is not ready.

    They are kept by shape, since containers of one shape can take each other's place: a pass looks
    at the first of each shape, and at those that are placed.
    The lists of places are in the order of the queue. `images` has the image of a container that
    has one.
    """

    def __init__(self) -> None:
        self.waiting: _Places = {}
        self.promised: _Places = {}
        self.where: dict[str, tuple[ContainerShape, Place]] = {}
        self.images: dict[str, str] = {}

    def add(self, container: TrackedContainer, shape: ContainerShape) -> None:
        """Add a container that waits."""
        self._enter(container, shape)
        insort(self.waiting.setdefault(shape, []), container.place)

    def extend(self, many: Iterable[tuple[TrackedContainer, ContainerShape]]) -> None:
        """Add many new containers."""
        for container, shape in many:
            self._enter(container, shape)
            self.waiting.setdefault(shape, []).append(container.place)
        for places in self.waiting.values():
            places.sort()

    def remove(self, uuid: str, *, promised: bool) -> None:
        """Remove a container that no longer waits. Raises KeyError for an unknown one."""
        shape, place = self.where.pop(uuid)
        self.images.pop(uuid, None)
        _take_out(self.promised if promised else self.waiting, shape, place)

    def start(self, uuid: str) -> None:
        """Remove a container that starts; the caller removes its place."""
        del self.where[uuid]
        self.images.pop(uuid, None)

    def promise(self, shape: ContainerShape, place: Place) -> None:
        """Note that a container was promised a room; the caller removes its place from the waiting
        ones.
        """
        insort(self.promised.setdefault(shape, []), place)

    def break_promise(self, shape: ContainerShape, place: Place) -> None:
        """Put a container whose promise is broken back among the waiting ones."""
        _take_out(self.promised, shape, place)
        insort(self.waiting.setdefault(shape, []), place)

    def count_promised_workflows(self) -> int:
        """How many containers that run workflows were promised a room."""
        return sum(len(places) for shape, places in self.promised.items() if shape.runs_workflow)

    def heads(self) -> list[tuple[Place, int, ContainerShape, bool]]:
        """The first of each shape with a number that is unique, its shape, and whether it was
        promised a room.
        """
        return [
            # The number comes before the shape in comparisons: shapes have no order.
            (places[0], 2 * number + promised, shape, promised)
            for promised, table in ((False, self.waiting), (True, self.promised))
            for number, (shape, places) in enumerate(table.items())
            if places
        ]

    def _enter(self, container: TrackedContainer, shape: ContainerShape) -> None:
        self.where[container.uuid] = (shape, container.place)
        if container.image:
            self.images[container.uuid] = container.image


def _take_out(table: _Places, shape: ContainerShape, place: Place) -> None:
    places = table[shape]
    del places[bisect_left(places, place)]

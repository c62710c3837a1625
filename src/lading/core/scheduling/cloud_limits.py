"""Limits of a cloud and of the API, learned from their refusals, and the planner's other inputs.

Limits of the cloud (docs/spec/cloud, section Limits):

- A refusal for quota while there are `n` VMs: no more are requested until there are fewer than `n`,
  or a pause has passed, as quotas are raised; the pause doubles with each refusal in a row. Without
  any VM it is a minute.
- A refusal for lack of capacity excludes the type, or the group of types (preemptible ones
  separately), for a pause that doubles up to `LONGEST`.
- A refusal for the rate of calls prevents all creation until the time that the cloud names, else
  for a pause.
- A created VM ends the pauses of its kind: the next refusal begins with the shortest one.

Limit of running containers, learned from the API's busy responses, 503 (docs/spec/dispatch, section
Backpressure):

- At first any number, or the configured estimate (`InitialQuotaEstimate`).
- When the API is overloaded (it answers 503 to many requests, not to single ones), the limit is one
  fewer than run now, but at least one.
- After `QUIET` seconds without such a response, the limit is a tenth more than run now, plus one;
  this step never lowers it.

The limit counts containers, not VMs as in Arvados: at the limit several containers still share a
VM.

`CloudRules`, `CloudQueue`, `PlanningPass` and `CloudPlan` are the input, working state and outcome
of `cloud_planner` (docs/spec/cloud, section Planning).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lading.core.scheduling.instance_types import ContainerShape, InstanceType, eligible
from lading.core.scheduling.planning import Place, StartDecision, TrackedContainer

# The longest pause still notices a raised quota, or new capacity, without a restart of the
# dispatcher.
SHORTEST, LONGEST = 60.0, 960.0
"""Seconds without creations after a refusal for quota or capacity: doubled four times at most."""
RATE_SHORTEST, RATE_LONGEST = 1.0, 60.0
"""The same after a refusal for the rate of calls, which clouds measure by the second or minute."""

QUIET = 60.0
"""Seconds without a busy answer before more containers are tried (docs/spec/dispatch, section
Backpressure)."""
_Places = dict[ContainerShape, list[Place]]


@dataclass(frozen=True, slots=True)
class Ban:
    """A pause of `length` seconds without creations, until `until`; `why` is a sentence."""

    until: float
    length: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits as far as they are known. `most` is the configured number of VMs, 0 any. Times
    are seconds on one clock.
    """

    most: int = 0
    quota: int | None = None
    quota_ban: Ban | None = None
    rate_ban: Ban | None = None
    scarce: Mapping[str, Ban] = field(default_factory=dict)
    avoided: Mapping[str, Ban] = field(default_factory=dict)
    """Preemptible types that were taken away lately, by the cloud's name (`cloud_spot`)."""

    def over_quota(self, machines: int, *, now: float) -> str:
        """Reason that no VM of any type may be created, or ""."""
        if self.most and machines >= self.most:
            return f"{machines} of at most {self.most} instances (MaxInstances) are in use"
        ban = self.quota_ban
        if ban is not None and now < ban.until and (self.quota is None or machines >= self.quota):
            return f"the cloud account is at its quota: {ban.why}"
        return ""

    def too_many(self, machines: int, more: int, *, now: float) -> str:
        """Reason that `more` further VMs may not be created at once, or ""."""
        if not self.over_quota(machines + more - 1, now=now):
            return ""
        # The sentence of the quota itself, when not even one more may be created; else this gang is
        # too large for what is left.
        sentence = self.over_quota(machines, now=now)
        most = (
            f"there may be {self.most} (MaxInstances)"
            if self.most
            else "the cloud account has a quota"
        )
        return sentence or f"{more} more are needed at once, there are {machines}, and {most}"

    def left(self, machines: int, requested: int, *, now: float) -> int:
        """Number of further VMs that may be created, of the wanted number."""
        return next(
            (more for more in range(requested) if self.over_quota(machines + more, now=now)),
            requested,
        )

    def slowed(self, *, now: float) -> str:
        """Reason that no VM may be created at this moment, or ""."""
        ban = self.rate_ban
        return (
            f"the cloud asks for fewer calls: {ban.why}"
            if ban is not None and now < ban.until
            else ""
        )

    def lacks(self, group: str, *, now: float) -> str:
        """Reason that no VM of this kind may be created, or ""."""
        ban = self.scarce.get(group)
        return (
            f"the cloud has none to give: {ban.why}" if ban is not None and now < ban.until else ""
        )

    def avoids(self, kind: InstanceType, *, now: float) -> str:
        """Reason that a VM of another type is better, or ""."""
        ban = self.avoided.get(kind.provider_type) if kind.preemptible else None
        return ban.why if ban is not None and now < ban.until else ""

    def ordered(self, kinds: Sequence[InstanceType], *, now: float) -> Sequence[InstanceType]:
        """The types in the order in which they are tried: avoided ones last."""
        # Without reclaims nothing is sorted.
        if not self.avoided:
            return kinds
        return sorted(kinds, key=lambda kind: self.avoids(kind, now=now) != "")

    def next_moment(self, *, now: float) -> float | None:
        """Time at which a limit ends without an event, or None."""
        bans = [self.quota_ban, self.rate_ban, *self.scarce.values(), *self.avoided.values()]
        return min((ban.until for ban in bans if ban is not None and ban.until > now), default=None)


def quota_refused(limits: Limits, *, machines: int, why: str, now: float) -> Limits:
    """Note that the cloud refused a VM for quota while others existed."""
    ban = _longer(limits.quota_ban, why, now=now, shortest=SHORTEST, longest=LONGEST)
    # A quota of 0 would end all creation: it is tried again after the shortest pause.
    if machines == 0:
        return replace(limits, quota=None, quota_ban=Ban(now + SHORTEST, ban.length, why))
    return replace(limits, quota=machines, quota_ban=ban)


def rate_refused(limits: Limits, *, until: float | None, why: str, now: float) -> Limits:
    """Note that the cloud refused a call because of the rate of calls."""
    ban = _longer(limits.rate_ban, why, now=now, shortest=RATE_SHORTEST, longest=RATE_LONGEST)
    # A cloud that names a time is believed; it may be in the past by now.
    return replace(limits, rate_ban=ban if until is None else Ban(max(until, now), ban.length, why))


def capacity_refused(limits: Limits, *, group: str, why: str, now: float) -> Limits:
    """Note that the cloud has no VM of this kind now."""
    ban = _longer(limits.scarce.get(group), why, now=now, shortest=SHORTEST, longest=LONGEST)
    return replace(limits, scarce={**limits.scarce, group: ban})


def created(limits: Limits, *, group: str) -> Limits:
    """Note that the cloud created a VM of this kind."""
    # Most creations find no ban: the same value shows that nothing changed.
    if limits.quota_ban is None and limits.rate_ban is None and group not in limits.scarce:
        return limits
    scarce = {name: ban for name, ban in limits.scarce.items() if name != group}
    return replace(limits, quota=None, quota_ban=None, rate_ban=None, scarce=scarce)


def _longer(past: Ban | None, why: str, *, now: float, shortest: float, longest: float) -> Ban:
    length = shortest if past is None else min(past.length * 2, longest)
    return Ban(now + length, length, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """`most` containers at a time, 0 any; `busy_at` is the last busy answer that was looked at,
    `since` when that was.

    `busy_at` is on the clock of the API's client, 0.0 for never; `since` on that of the planner.
    """

    most: int = 0
    busy_at: float = 0.0
    since: float = float("-inf")

    def left(self, running: int) -> int | None:
        """Number of further containers allowed, None for any number."""
        return max(0, self.most - running) if self.most else None

    def next_moment(self, *, now: float) -> float | None:
        """Time at which the limit rises without an event, or None."""
        due = self.since + QUIET
        return due if self.most and due > now else None


def observe(pressure: Pressure, *, busy_at: float, running: int, now: float) -> Pressure:
    """The pressure after a step, by the API's last busy answer and the number of containers."""
    # The clocks differ: only whether there was a new busy answer counts, not when it came.
    if busy_at > pressure.busy_at:
        # One fewer than run now: containers that end reduce the load by themselves, and at least
        # one must run so that the limit can rise again.
        return Pressure(most=max(1, running - 1), busy_at=busy_at, since=now)
    if pressure.most and now - pressure.since >= QUIET:
        # From what runs, not from the limit: an unused limit says nothing about what the API can
        # take.
        return replace(pressure, most=max(pressure.most, running + running // 10 + 1))
    return pressure


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
    """Rules of the planner.

    `workflow_fraction` of the most VMs are for containers that run workflows, 0.0 for no limit;
    `most_containers` on one VM, 0 any; `extra_ram` is bytes that a supervisor takes beside its
    container. `group` names the types that share the cloud's capacity with a type.
    """

    types: tuple[InstanceType, ...]
    price_factor: float = 1.5
    workflow_fraction: float = 0.5
    most_containers: int = 0
    extra_ram: int = 0
    group: Callable[[InstanceType], str] = lambda kind: (
        f"{kind.provider_type}{'-spot' if kind.preemptible else ''}"
    )

    def eligible(self, shape: ContainerShape) -> tuple[InstanceType, ...]:
        """The types for a shape, cheapest first."""
        return eligible(
            shape,
            self.types,
            price_factor=self.price_factor,
            most_containers=self.most_containers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPlan:
    """The decisions of one pass. Workers in `starts` are ids of rooms.

    `creates`: the room to be and its type. `retire`: empty rooms to remove. `kept_rooms`: room and
    gang, for rooms that must stay though nothing runs there yet. `unneeded`: rooms that are not
    ready and not promised to a container.
    """

    starts: tuple[StartDecision, ...] = ()
    kept_rooms: tuple[tuple[str, str], ...] = ()
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
    """Number of containers that may still be started or promised a room."""
    starts: list[StartDecision] = field(default_factory=list)
    creates: list[tuple[str, str]] = field(default_factory=list)
    guarded: bool = False
    """A room is kept for the first container that waits for the quota."""
    places: int = 0
    """Number of VMs not yet created that belong to the gang that rooms are kept for."""
    freed: bool = False
    """A room is not kept any more, so others may have it."""


class CloudQueue:
    """Containers that wait for a room, and containers with a promised room that is not ready.

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

    def promise(self, shape: ContainerShape, position: Place) -> None:
        """Note that a container was promised a room; the caller removes its place from the waiting
        ones.
        """
        insort(self.promised.setdefault(shape, []), position)

    def break_promise(self, shape: ContainerShape, position: Place) -> None:
        """Put a container whose promise is broken back among the waiting ones."""
        _take_out(self.promised, shape, position)
        insort(self.waiting.setdefault(shape, []), position)

    def count_promised_workflows(self) -> int:
        """Number of containers that run workflows and were promised a room."""
        return sum(len(places) for shape, places in self.promised.items() if shape.runs_workflow)

    def heads(self) -> list[tuple[Place, int, ContainerShape, bool]]:
        """The first of each shape with a number that is unique, its shape, and whether it was
        promised a room.
        """
        return [
            # The number comes before the shape in comparisons: shapes have no order.
            # Twice the number plus one for promised shapes keeps the numbers of both tables apart.
            (places[0], 2 * number + promised, shape, promised)
            for promised, table in ((False, self.waiting), (True, self.promised))
            for number, (shape, places) in enumerate(table.items())
            if places
        ]

    def _enter(self, container: TrackedContainer, shape: ContainerShape) -> None:
        self.where[container.uuid] = (shape, container.place)
        if container.image:
            self.images[container.uuid] = container.image


def _take_out(table: _Places, shape: ContainerShape, position: Place) -> None:
    places = table[shape]
    del places[bisect_left(places, position)]

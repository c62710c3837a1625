"""Records that all planning shares: containers, workers, decisions, and why a container waits.

Both planners (`batch_planner`, `cloud_planner`), the dispatch loop and every fleet use these
records, so that nothing has to be converted between them.

- `TrackedContainer` is a container as a dispatcher knows it, `Occupant` the part of a worker that
  one has taken.
- `FleetWorker` is a machine, or one kind of node of a batch system, on which containers can start.
- `Snapshot` is the input of a plan, `DispatchPlan` with its `StartDecision` the outcome.
- `WaitStatus` is the reason for which a container waits.
- `Window` is the part of a long queue that a dispatcher has read.

A read takes the first waiting containers, up to a number. The last one of a read that did not reach
the end of the queue is the *horizon*. Events report single containers behind it, which do not
count: they would overtake older ones that have not been read. A later read finds them.

- The queue is read again when few containers are left within the horizon, so that the next ones are
  known before there is room for them.
- Containers *aside* are not counted: those that cannot start here, or not for a while, and those
  that have a place already. A read asks for so many more, so that they do not hide the containers
  behind them.
- Workflow runners have room of their own (`batch_planner`), and so a window of their own: a queue
  of ordinary containers does not hide them, and they hide no container that they may wait for.

Source: docs/spec/dispatch, sections Queue and Planning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Final

from lading.core.containers.container import FINAL, ContainerState
from lading.core.resources import Resources, rank_need, total
from lading.core.scheduling.gpu_kinds import GpuHolder, has_free_gpus, unsuited_kinds
from lading.core.scheduling.instance_types import NO_GPU, Gpu

Place = tuple[int, str, str]
"""The place of a container in the queue: sorts by priority, the highest first, then by age."""
FRONT: Final[Place] = (-(1 << 64), "", "")
"""Before every place: priorities have at most 63 bits."""
FitKey = tuple[Resources, tuple[str, ...], Gpu, bool]
"""The properties of a container that determine on which workers it fits: equal ones, equal fit."""

by_place = attrgetter("place")
"""The sort key of the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedContainer:
    """A dispatcher's record of a container, with its size. Amounts are bytes, times seconds."""

    uuid: str
    state: ContainerState | None = ContainerState.QUEUED
    """None: there is no such record."""
    priority: int = 0
    created_at: str = ""
    """The API's text, which sorts by time."""
    locked_by: str = ""
    """The uuid of the token that has locked it."""
    need: Resources = Resources()
    """The resources of all its ranks together. Undefined while `fault` is set."""
    fault: str = ""
    """Reason why the record has no valid size, or ""."""
    lacks: str = ""
    """The capability that it asks for and the machines of this dispatcher lack, or ""."""
    growth: Resources = Resources()
    """Largest amount that it can be given above `need`."""
    nodes: int = 1
    """Number of its ranks; more than one is a gang."""
    shares_vcpus: bool = False
    """Its ranks have the VCPUs of `need` together, however many they are."""
    ram: int = 0
    """Its constraint `ram`, a part of the RAM of `need`."""
    partitions: tuple[str, ...] = ()
    """Partitions where it may run; empty: those for containers that name none."""
    gpu: Gpu = NO_GPU
    internet: bool = False
    """It asks for access to the internet."""
    max_run_time: int = 0
    """0 is without limit."""
    runs_workflow: bool = False
    """The scheduling parameter `supervisor`: it mostly waits for containers that it asks for."""
    preemptible: bool = False
    """The container may run on VMs that the cloud may take back."""
    prefers: bool = False
    """Beside `preemptible`: it may run on others too, where there are none."""
    deadline: float = 0.0
    """Seconds since 1970; 0.0: without."""
    run_time: int = 0
    """Seconds that its tool takes by experience; 0: not known."""
    image: str = ""
    user: str = ""
    seen_at: float = 0.0
    """Time at which the dispatcher first saw it, on the dispatcher's clock."""
    # Two records that say the same are equal, whichever report they come from: an event that
    # changes nothing wakes no planner.
    version: int = field(default=0, compare=False)
    """Order of the reports about it (`dispatch.queue`). It does not count in comparisons."""

    @property
    def place(self) -> Place:
        """The container's place in the queue. Priorities are exact integers."""
        # Negated, so that plain comparison of tuples puts the highest priority first. The uuid
        # makes the order total: two dispatchers see the same queue.
        return -self.priority, self.created_at, self.uuid

    @property
    def waiting(self) -> bool:
        """Whether it waits to be started."""
        # Priority 0 means cancelled or not wanted by any request: such a container is left alone.
        return self.state is ContainerState.QUEUED and self.priority > 0

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL

    @property
    def sized(self) -> bool:
        """Whether its need is known, and not one that no machine here can meet."""
        return not self.fault and not self.lacks and self.state is not None

    @property
    def fit_key(self) -> FitKey:
        """Its properties that determine on which workers it fits."""
        return self.need, self.partitions, self.gpu, self.internet

    @property
    def each(self) -> Resources:
        """The need of one rank of a gang where it is alone."""
        return rank_need(self.need, self.nodes)

    def amounts(self, extra: Resources) -> dict[str, int]:
        """Its runtime constraints with `extra` beyond the need."""
        return {"vcpus": self.need.vcpus + extra.vcpus, "ram": self.ram + extra.ram}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A container that occupies a worker, and how much of it: being started, running or ending.

    `started` is on the clock of `TrackedContainer.seen_at`; minus infinity: before the dispatcher
    began. `ends` is when it is expected to end; infinity: not known. `queue_place` is its place in
    the queue, None where its record is not known. `asks`: it is prepared, and waits for its VCPUs,
    RAM and GPUs on this worker, which `need` has.
    """

    uuid: str
    need: Resources
    started: float = float("-inf")
    ends: float = float("inf")
    queue_place: Place | None = None
    asks: bool = False
    gpu: Gpu = NO_GPU
    """The GPUs that it asked for."""

    def passed(self, head: TrackedContainer) -> bool:
        """Whether it comes after the head in the queue and started while the head waited. One of
        unknown place counts as such.
        """
        return self.comes_after(head.place, since=head.seen_at)

    def comes_after(self, position: Place, *, since: float) -> bool:
        """Whether it comes after a place in the queue and started since `since`."""
        # In doubt for the head, which has waited longest.
        return self.started >= since and (self.queue_place is None or self.queue_place > position)


@dataclass(frozen=True, slots=True)
class FleetWorker:
    """A machine on which containers can be started now: its capacity and its occupants.

    A fleet's view has workers without occupants; those of a snapshot have them.
    """

    id: str
    capacity: Resources
    partitions: frozenset[str] = frozenset()
    queues: bool = False
    """The worker is a batch system, and `capacity` is that of a node of one kind."""
    closed: bool = False
    """The worker runs only containers that name one of its partitions."""
    gpu_kinds: tuple[Gpu, ...] | None = None
    """Its GPUs by kinds, None where these are not known."""
    gpu_numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """How many of each kind containers have, by uuid, as far as that is known."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Of one that queues: in each partition, the machines of this kind that a gang can be spread
    over, a rank on each; under "" where jobs go that name none."""
    occupants: tuple[Occupant, ...] = ()
    workflow_runners: tuple[Occupant, ...] = ()
    """Occupants that run workflows, which are counted apart."""
    others: int = 0
    """Bytes of RAM that other programs of the machine use now, of which `capacity` has none."""
    internet_fault: str = ""
    """Reason why its containers have no internet, with the mend; "" if they have it."""
    gpu_fault: str = ""
    """Which of its GPUs are out of service, and why; "" if none is."""

    @property
    def free(self) -> Resources:
        """The part of the capacity that its occupants leave."""
        if self.queues:
            return self.capacity
        return self.capacity - total(occupant.need for occupant in self.occupants)

    def takes(self, partitions: Collection[str]) -> bool:
        """Whether a container that names these partitions, or none, may run here."""
        # A container that names partitions accepts any of them.
        return not self.partitions.isdisjoint(partitions) if partitions else not self.closed

    def machines(self, partitions: Collection[str]) -> int:
        """Number of its nodes for one job that names these partitions, or none."""
        return max((self.nodes.get(partition, 0) for partition in partitions or ("",)), default=0)

    def admits(self, container: TrackedContainer) -> bool:
        """Whether a container may run here and fits when nothing else does."""
        return (
            self.takes(container.partitions)
            and container.need.fits(self.capacity)
            and not self.unsuited(container)
        )

    def unsuited(self, container: TrackedContainer) -> str:
        """Reason why its network or its GPUs do not suit this container; "" if they do, or are not
        known.
        """
        if container.internet and self.internet_fault:
            return self.internet_fault
        if not container.gpu.count or self.gpu_kinds is None:
            return ""
        return unsuited_kinds(container.gpu, self.gpu_kinds)

    def has_gpus(
        self, container: TrackedContainer | Occupant, others: Iterable[Occupant | TrackedContainer]
    ) -> bool:
        """Whether GPUs that suit a container are free beside those of `others`. Of a worker with
        one kind the number tells it, which `Resources` has.
        """
        if not container.gpu.count or self.queues or len(self.gpu_kinds or ()) <= 1:
            return True
        holders = (
            GpuHolder(occupant.gpu, occupant.need.gpus, self.gpu_numbers.get(occupant.uuid))
            for occupant in others
            if occupant.need.gpus
        )
        return has_free_gpus(container.gpu, container.need.gpus, self.gpu_kinds or (), holders)


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """The worker on which room is kept for a container, and since when room is kept for it."""

    worker: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The input of a plan: containers that wait (sized ones only), and the workers.

    `workflow_runners` are the waiting containers that run workflows, apart from the others in
    `queue`. `held_back`: waiting containers that may not start now, with the reason as a sentence
    (a pause after a failed start, an earlier attempt not yet cleared away). They block nobody.
    `quota` is the most containers at a time, 0 as many as fit; `most` how many may be started now,
    None any number; `shortage` why none may be started now on any worker, as a sentence, "" when
    some may. `now` is the time on the clock of `TrackedContainer.seen_at`. `kept_rooms`: since when
    room is kept for containers that wait, and where. `passing`: the seconds for which others of
    unknown run time may pass them (`core.scheduling.passing`). `busy_at`: when the API last
    reported that it is busy, seconds since 1970, 0.0 for never; `overloaded_at`: when it last
    answered so to many requests.
    """

    queue: tuple[TrackedContainer, ...] = ()
    workflow_runners: tuple[TrackedContainer, ...] = ()
    workers: tuple[FleetWorker, ...] = ()
    held_back: Mapping[str, str] = field(default_factory=dict)
    quota: int = 0
    most: int | None = None
    shortage: str = ""
    now: float = 0.0
    kept_rooms: Mapping[str, KeptRoom] = field(default_factory=dict)
    passing: float = 0.0
    busy_at: float = 0.0
    overloaded_at: float = 0.0

    @property
    def running(self) -> int:
        """Number of containers on the workers, without workflow runners."""
        # A set, because a gang occupies several workers and is one container for the quota.
        return len({occupant.uuid for worker in self.workers for occupant in worker.occupants})

    @property
    def present(self) -> set[str]:
        """The containers that occupy the workers."""
        return {
            occupant.uuid
            for worker in self.workers
            for occupant in (*worker.occupants, *worker.workflow_runners)
        }

    @property
    def slots(self) -> int | None:
        """Number of further containers that the quota allows; None is any number."""
        return max(0, self.quota - self.running) if self.quota else None


@dataclass(frozen=True, slots=True)
class StartDecision:
    """Lock this container, then start it on this worker. A lost lock drops the decision.

    `extra` is the amount that it is given beyond its need. `others`: the workers of the further
    ranks of a gang that is spread over several, one for each rank.
    """

    uuid: str
    worker: str
    extra: Resources = Resources()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room on a worker that is kept for a container: it finds none now."""

    uuid: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchPlan:
    """The decisions in the order in which to act, and the containers that find no room but have
    some reserved, in order; the first is the head.
    """

    starts: tuple[StartDecision, ...] = ()
    reservations: tuple[Reservation, ...] = ()


class Category(StrEnum):
    """Kind of reason why a container waits."""

    PREPARING = "preparing"
    HELD = "held"
    NO_WORKER = "no worker"
    TOO_LARGE = "too large"
    PARTITION = "partition"
    HANDED_OVER = "handed over"
    CAPACITY = "capacity"
    QUOTA = "quota"
    BEHIND_HEAD = "behind head"
    UNSIZED = "unsized"
    BOOTING = "booting"


@dataclass(frozen=True, slots=True)
class WaitStatus:
    """Reason why a container waits: its kind, and a sentence for the users.

    `cause` says the same afterwards, in words that follow "waited 41 s "
    (`core.scheduling.wait_reasons`); "": the sentence says it.
    """

    category: Category
    sentence: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """The first of a queue, up to the one at `horizon`; None is all of it."""

    horizon: Place | None = None

    def shows(self, container: TrackedContainer) -> bool:
        """Whether a container's place is within the window."""
        return self.horizon is None or container.place <= self.horizon

    def is_low(self, left: int, *, size: int) -> bool:
        """Whether to look again: few of `size` containers are left that are not aside."""
        # Half of a window is read while the other half still waits: the queue is known again before
        # there is room for more than was found. Without a horizon all of it is known.
        return self.horizon is not None and left < max(1, size // 2)


def window_of(places: Sequence[Place], *, most: int) -> Window:
    """The window after a read that asked for the first `most` and found these places, in order."""
    # Fewer than were asked for: the read came to the end of the queue, and nothing is hidden.
    return Window(places[-1] if places and len(places) >= most else None)

"""The fleet seam between the dispatch loop and the supervisors: local processes, Slurm jobs, or
cloud VMs.

The seam is level-triggered. `view` tells what is known now and never waits; `changed` wakes its one
consumer when the view may differ; nothing is lost when several changes fall together. Rules for an
implementation:

- One process for one container. `start` of a container that has a process, alive or not cleared
  away, raises Conflict and starts nothing.
- When `start` returns, the view shows the process. When it raises, a process may or may not exist;
  if one does, it shows in the view as soon as the fleet knows.
- A process goes from alive to exited and, by `clean`, out of the view. It never comes back to life.
- `clean` returns only when nothing is left of the container: no process, no mount, no directory. It
  may be repeated. For a living process it raises Conflict and touches nothing.
- `signal` for a process that is not alive does nothing.
- `view().known` is False as long as the fleet cannot say which workers exist, as just after its
  start. Later troubles leave it True: what was seen alive counts as alive until the fleet knows
  better. Workers that cannot be started on now are not in the view.
- `view().unasked` names the workers of an earlier dispatcher that have not said yet what they run.
  Meanwhile nothing is decided about containers that the earlier dispatcher had locked and that no
  other worker runs.

Source: docs/spec/dispatch, section Fleets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from signal import Signals
from typing import Protocol

from lading.core.containers.cost import Price, cost
from lading.core.errors import Failure
from lading.core.json_values import JsonObject
from lading.core.resources import Resources, rank_need
from lading.core.scheduling.instance_types import Gpu
from lading.core.timestamps import parse_time


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker that can be started on now, and all that it can hold (see
    `core.scheduling.batch_planner.Worker` for the rest).
    """

    id: str
    capacity: Resources
    partitions: frozenset[str] = frozenset()
    queues: bool = False
    closed: bool = False
    gpu: Gpu | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Of one that queues: in each partition, the machines of this kind that a gang can be spread
    over, a rank on each; under "" where jobs go that name none."""

    def takes(self, partitions: Collection[str]) -> bool:
        """Whether a container that names these partitions, or none, may run here."""
        return not self.partitions.isdisjoint(partitions) if partitions else not self.closed

    def machines(self, partitions: Collection[str]) -> int:
        """How many of them one job can have that names these partitions, or none."""
        return max((self.nodes.get(one, 0) for one in partitions or ("",)), default=0)


@dataclass(frozen=True, slots=True)
class Spending:
    """What a container costs where its supervisor cannot say it any more: its share of these prices
    until `end`.
    """

    prices: tuple[Price, ...]
    share: float
    end: datetime

    def since(self, started_at: str) -> float:
        """Dollars from its start on, an API timestamp."""
        return cost(self.prices, parse_time(started_at), self.end, share=self.share)


@dataclass(frozen=True, slots=True)
class Process:
    """The supervisor of one container. `worker` is "" when it is not known where it runs.

    `waiting`: it is still to be started by whoever it was handed to, so nothing is lost when it is
    stopped. `idle`: its command has ended, and its results are being saved. `preparing`: its image
    and inputs are being made ready, which takes a while; `asking`: they are ready, and it waits for
    `signal` with CONT to take what it needs. `note`: what the fleet knows about its waiting, as a
    sentence. `fate`: of one that has ended, what the fleet was told about that, as a sentence, and
    `failure` the class of it. `others`: where its further ranks run, of a gang over several
    workers, one for each. `spending`: what one that has ended with its machine has cost.
    """

    worker: str
    alive: bool = True
    waiting: bool = False
    note: str = ""
    fate: str = ""
    failure: Failure = Failure.INFRASTRUCTURE
    others: tuple[str, ...] = ()
    idle: bool = False
    spending: Spending | None = None
    preparing: bool = False
    asking: bool = False

    def takes(self, need: Resources) -> Resources:
        """How much of what its container needs is taken now: its files are on the disk, before and
        after it runs.

        One that asks counts in full: what becomes free is for it, not for containers that have not
        begun.
        """
        return Resources(disk=need.disk) if self.idle or self.preparing else need


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """What a fleet knows at one moment.

    `processes` is by container uuid. `most`: how many more containers may be handed to it now, None
    for any number. `trouble` says why it is not `known` yet, or why workers are `unasked`, as a few
    words; `shortage` why nothing may be started now, as a sentence without its full stop.
    """

    known: bool = False
    workers: tuple[WorkerView, ...] = ()
    processes: Mapping[str, Process] = field(default_factory=dict)
    most: int | None = None
    trouble: str = ""
    unasked: tuple[str, ...] = ()
    shortage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a container needs of where it runs.

    `max_run_time` is seconds, 0 without limit; `wanted` how soon it should run (larger is sooner);
    `user` for whom. `nodes`: containers of a gang, which need it all together.
    """

    need: Resources = Resources()
    partitions: tuple[str, ...] = ()
    max_run_time: int = 0
    wanted: int = 0
    user: str = ""
    instance_type: str = ""
    nodes: int = 1

    @property
    def each(self) -> Resources:
        """What one node of a gang needs."""
        return rank_need(self.need, self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A container to start a supervisor for. The token can touch this one container; it is never
    logged.

    `others` are the workers of the further ranks of a gang that is spread over several.
    """

    uuid: str
    worker: str
    token: str = field(repr=False)
    order: Order = Order()
    known: JsonObject = field(default_factory=dict, repr=False)
    """Its record and its own token as they were when it was locked, for a supervisor that starts at
    once.
    """
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """What the dispatcher knows of a container that has a process here; `final`: its record has
    ended.

    `seen` is when the dispatcher first saw it, in seconds on its clock; `vram` the bytes that each
    GPU must have.
    """

    wanted: int
    final: bool
    need: Resources = Resources()
    state: str = ""
    priority: int = 0
    created_at: str = ""
    seen: float = 0.0
    vram: int = 0


Look = Callable[[str], Interest | None]


class Fleet(Protocol):
    """Runs supervisors. One consumer."""

    def heed(self, look: Look) -> None:
        """Where to look up what is wanted of a container, at any time; called once, before anything
        is started.
        """

    def view(self) -> FleetView:
        """What is known now."""

    async def changed(self) -> None:
        """Wait until the view may differ from what it was when `changed` last returned."""

    async def start(self, assignment: Assignment) -> None:
        """Start a supervisor.

        Raises Conflict when the container has a process here, Unavailable when none can be started
        now, ExecutionError when the worker refuses this one.
        """

    async def signal(self, uuid: str, number: Signals) -> None:
        """Send a signal to a supervisor. Raises Unavailable."""

    async def clean(self, uuid: str) -> None:
        """Clear away what a dead supervisor left. Raises Conflict when it is alive, Unavailable."""

"""A VM as the dispatcher knows it: its phase, instance, connection and last fault."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lading.core.resources import Price
from lading.core.scheduling.instance_lifecycle import (
    Behavior,
    InstanceEvent,
    InstanceFacts,
    InstancePhase,
    step,
)
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import Instance
from lading.net.rpc import LineChannel

Work: TypeAlias = Coroutine[Any, Any, object]
"""Work of a task on a VM."""
# Asked of every VM at every step.
# A name of the module is found faster than an attribute of the enumeration.
_IDLE, _RUNNING = InstancePhase.IDLE, InstancePhase.RUNNING


@dataclass(slots=True, eq=False, kw_only=True)
class CloudMachine:
    """One VM. `key` is ours from before the cloud has named it; `kind` None: its type is not
    configured any more.

    Times are seconds on the loop's clock; `created` is when it was asked for, as far as is known.
    """

    key: str
    type: str
    secret: str = field(repr=False)
    kind: InstanceType | None = None
    instance: Instance | None = None
    phase: InstancePhase = InstancePhase.CREATING
    behavior: Behavior = Behavior.RUN
    created: float = 0.0
    reached: float | None = None
    """Time of the first ssh connection to this VM, verified by its secret."""
    since: float = 0.0
    answered_at: float = 0.0
    broken: str = ""
    unremoved: int = 0
    """Directories that could not be removed on it yet."""
    fault: str = ""
    why: str = ""
    """Reason for the shutdown."""
    has_failed: bool = False
    """Whether it is removed because it is of no use: it never became ready, or it is broken."""
    logs_kept: bool = False
    pinned: str = ""
    booted: bool = False
    """Whether the boot probe has succeeded since it was last started, as far as this dispatcher
    knows.
    """
    link: LineChannel | None = None
    containers: set[str] = field(default_factory=set)
    """Containers whose supervisors are on this VM, alive or not cleaned up."""
    posts: dict[str, int] = field(default_factory=dict)
    """Number of ranks on this VM, by gang, that belong to a supervisor on another VM; alive or not
    cleaned up.
    """
    expected: frozenset[str] = frozenset()
    """Containers on their way here: planned, and perhaps being locked or started."""
    images: set[str] = field(default_factory=set)
    """Images that were unpacked here, as far as is known: reported by the VM, or used by a
    container here.
    """
    last_container: str = ""
    last_busy: float | None = None
    prices: tuple[Price, ...] = ()
    """Its prices, oldest first; empty: the configured price of its type."""
    prices_told: tuple[Price, ...] = ()
    misses: int = 0
    tagged: float = float("-inf")
    """Time of the latest change of its tags."""
    is_tagged: bool = True
    """Whether the cloud has its behavior in the tags."""
    asked: float | None = None
    """Time of the latest request for its removal."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has an address, or is to go."""
    task: asyncio.Task[object] | None = None

    @property
    def name(self) -> str:
        """Its name in the cloud, before it has one our key."""
        return self.instance.id if self.instance is not None else self.key

    @property
    def address(self) -> str:
        """Its address; "" while that is not known."""
        return self.instance.address if self.instance is not None else ""

    @property
    def ready(self) -> bool:
        """Whether it has become ready once and is not going."""
        return self.phase is _IDLE or self.phase is _RUNNING

    @property
    def shown_phase(self) -> InstancePhase:
        """Its phase for people: what a ready VM does is not known while it cannot be reached."""
        return InstancePhase.UNKNOWN if self.ready and self.link is None else self.phase

    @property
    def going(self) -> bool:
        """Whether it is to be removed, or gone."""
        return self.phase in (InstancePhase.SHUTDOWN, InstancePhase.GONE)

    @property
    def gone(self) -> bool:
        """Whether it is gone, or was never made."""
        return self.phase is InstancePhase.GONE

    @property
    def usable(self) -> bool:
        """Whether a container can be started here now."""
        return (
            self.link is not None
            and self.ready
            and self.behavior is Behavior.RUN
            and self.kind is not None
            and not self.broken
        )

    @property
    def facts(self) -> InstanceFacts:
        """Inputs of the shutdown decision."""
        return InstanceFacts(
            phase=self.phase,
            behavior=self.behavior,
            since=self.since,
            answered_at=self.answered_at,
            broken=self.broken,
            known_type=self.kind is not None,
        )

    def take(self, event: InstanceEvent, *, now: float) -> None:
        """Let an event happen. Raises IllegalTransition."""
        after = step(self.phase, event, name=self.name)
        # `since` is the time of the last change of the phase: an event without one must not prolong
        # a time-out.
        if after is not self.phase:
            self.phase, self.since = after, now
        # Tasks that wait for an address, or for the next attempt to connect, have to stop.
        if self.phase in (InstancePhase.SHUTDOWN, InstancePhase.GONE):
            self.changed.set()


class GangInstances:
    """The VMs of gangs that are spread over several, by container. Iterating gives the containers.

    `CloudMachine.posts` has the number of ranks on each VM.
    """

    def __init__(self) -> None:
        self._machines: dict[str, dict[str, CloudMachine]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._machines)

    def join(self, uuid: str, machine: CloudMachine) -> None:
        """Ranks of a gang are on a VM."""
        self._machines.setdefault(uuid, {})[machine.key] = machine

    def leave(self, uuid: str, machine: CloudMachine) -> None:
        """Remove the ranks of a gang from a VM."""
        there = self._machines.get(uuid, {})
        there.pop(machine.key, None)
        if not there:
            self._machines.pop(uuid, None)

    def machines(self, uuid: str) -> list[CloudMachine]:
        """The VMs of a gang."""
        return list(self._machines.get(uuid, {}).values())

    def names(self, uuid: str) -> list[str]:
        """Names of the VMs of a gang, each once for each of its ranks."""
        return [
            machine.name
            for machine in self.machines(uuid)
            for _ in range(machine.posts.get(uuid, 0))
        ]


def unkept_behavior(name: str, behavior: Behavior) -> str:
    """The fault of a behavior that holds, and that the tags of its VM do not have."""
    return (
        f"{name}: {behavior} is in effect, but the cloud did not take its tag: a dispatcher that "
        "starts now does not know of it; it is set again after the next list, or order it again"
    )

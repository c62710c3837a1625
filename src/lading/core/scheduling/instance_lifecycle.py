"""The life of one VM as a table, and when it is to be shut down (docs/spec/cloud, section Life of
an instance).

    creating   asked for, its name is not known yet
    unknown    found in the list of the cloud with our tag, made by an earlier dispatcher
    booting    the cloud has made it, it has not answered as it should
    idle       ready, runs nothing
    running    ready, runs containers
    shutdown   the cloud was asked to remove it; asked again until it is gone
    gone       not in the list of the cloud any more

The reasons for shutting one down are asked for with `verdict`, whenever something changed or a
time-out is due. Who wants to look into a VM holds it: then it is never shut down, and gets no
containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from lading.core.errors import IllegalTransition


class Phase(StrEnum):
    """Where a VM is in its life."""

    CREATING = "creating"
    UNKNOWN = "unknown"
    BOOTING = "booting"
    IDLE = "idle"
    RUNNING = "running"
    SHUTDOWN = "shutdown"
    GONE = "gone"


class Event(StrEnum):
    """What happens to a VM."""

    CREATED = "created"
    READY = "ready"
    OCCUPIED = "occupied"
    EMPTIED = "emptied"
    CONDEMNED = "condemned"
    VANISHED = "vanished"


class Behavior(StrEnum):
    """What an operator wants of it (tag `IdleBehavior`)."""

    RUN = "run"
    HOLD = "hold"
    DRAIN = "drain"


TABLE: Mapping[tuple[Phase, Event], Phase] = MappingProxyType(
    {
        (Phase.CREATING, Event.CREATED): Phase.BOOTING,
        (Phase.CREATING, Event.VANISHED): Phase.GONE,
        (Phase.CREATING, Event.CONDEMNED): Phase.SHUTDOWN,
        (Phase.UNKNOWN, Event.READY): Phase.IDLE,
        (Phase.UNKNOWN, Event.CONDEMNED): Phase.SHUTDOWN,
        (Phase.UNKNOWN, Event.VANISHED): Phase.GONE,
        (Phase.BOOTING, Event.READY): Phase.IDLE,
        (Phase.BOOTING, Event.CONDEMNED): Phase.SHUTDOWN,
        (Phase.BOOTING, Event.VANISHED): Phase.GONE,
        (Phase.IDLE, Event.OCCUPIED): Phase.RUNNING,
        (Phase.IDLE, Event.CONDEMNED): Phase.SHUTDOWN,
        (Phase.IDLE, Event.VANISHED): Phase.GONE,
        (Phase.RUNNING, Event.EMPTIED): Phase.IDLE,
        (Phase.RUNNING, Event.CONDEMNED): Phase.SHUTDOWN,
        (Phase.RUNNING, Event.VANISHED): Phase.GONE,
        (Phase.SHUTDOWN, Event.VANISHED): Phase.GONE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When a VM is shut down, in seconds (`Containers.CloudVMs`)."""

    idle: float = 60.0
    booting: float = 600.0
    probe: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a verdict looks at: `since` is when the phase began, `seen` when it last answered well,
    seconds.
    """

    phase: Phase
    behavior: Behavior = Behavior.RUN
    since: float = 0.0
    seen: float = 0.0
    broken: str = ""
    known_type: bool = True


def step(phase: Phase, event: Event, *, name: str = "instance") -> Phase:
    """The phase after an event. Raises IllegalTransition."""
    found = TABLE.get((phase, event))
    if found is None:
        raise IllegalTransition(name, phase, event)
    return found


def verdict(facts: Facts, times: Times, *, now: float, over_quota: bool = False) -> str:
    """Why a VM is to be shut down now; "" when it is to stay. `over_quota`: others wait for an
    instance.
    """
    if facts.behavior is Behavior.HOLD or facts.phase in (
        Phase.CREATING,
        Phase.SHUTDOWN,
        Phase.GONE,
    ):
        return ""
    if facts.phase in (Phase.UNKNOWN, Phase.BOOTING):
        if facts.behavior is Behavior.DRAIN and facts.phase is Phase.BOOTING:
            return "it is drained"
        if now >= facts.since + times.booting:
            return f"it did not become ready within {times.booting:g} s"
        return ""
    if now >= facts.seen + times.probe:
        return f"it has not answered for {times.probe:g} s"
    return (
        _idle_verdict(facts, times, now=now, over_quota=over_quota)
        if facts.phase is Phase.IDLE
        else ""
    )


def _idle_verdict(facts: Facts, times: Times, *, now: float, over_quota: bool) -> str:
    if facts.broken:
        return f"it cannot run containers: {facts.broken}"
    if facts.behavior is Behavior.DRAIN:
        return "it is drained"
    if not facts.known_type:
        return "its type is not configured any more"
    if over_quota:
        return "it is idle, and others wait for an instance"
    if now >= facts.since + times.idle:
        return f"it was idle for {times.idle:g} s"
    return ""


def next_moment(facts: Facts, times: Times, *, now: float) -> float | None:
    """When a verdict may change without any event; None for never.

    The sums are those of `verdict`: else rounding could make it early there and late here.
    """
    moments: list[float] = []
    if facts.behavior is Behavior.HOLD:
        return None
    if facts.phase in (Phase.UNKNOWN, Phase.BOOTING):
        moments.append(facts.since + times.booting)
    if facts.phase in (Phase.IDLE, Phase.RUNNING):
        moments.append(facts.seen + times.probe)
    if facts.phase is Phase.IDLE:
        moments.append(facts.since + times.idle)
    return min((moment for moment in moments if moment > now), default=None)

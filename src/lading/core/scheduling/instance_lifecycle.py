"""Phases of a VM's life as a table, and the decision to shut it down.

    creating   requested; its name is not known yet
    unknown    found in the list of the cloud with our tag, made by an earlier dispatcher
    booting    the cloud has made it, its boot probe has not succeeded
    idle       ready, runs nothing
    running    ready, runs containers
    shutdown   the cloud was asked to remove it; asked again until it is gone
    gone       not in the list of the cloud any more

`verdict` gives the reason for shutting a VM down; it is called after every change and time-out. An
operator may hold a VM to examine it: then it is never shut down, and gets no containers. Source:
docs/spec/cloud, section Life of an instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from lading.core.errors import IllegalTransition


class InstancePhase(StrEnum):
    """Phase of the life of a VM."""

    CREATING = "creating"
    UNKNOWN = "unknown"
    BOOTING = "booting"
    IDLE = "idle"
    RUNNING = "running"
    SHUTDOWN = "shutdown"
    GONE = "gone"


class InstanceEvent(StrEnum):
    """Event in the life of a VM."""

    CREATED = "created"
    READY = "ready"
    OCCUPIED = "occupied"
    EMPTIED = "emptied"
    CONDEMNED = "condemned"
    VANISHED = "vanished"


class Behavior(StrEnum):
    """Setting of an operator for a VM (tag `IdleBehavior`)."""

    RUN = "run"
    HOLD = "hold"
    DRAIN = "drain"


TABLE: Mapping[tuple[InstancePhase, InstanceEvent], InstancePhase] = MappingProxyType(
    {
        (InstancePhase.CREATING, InstanceEvent.CREATED): InstancePhase.BOOTING,
        (InstancePhase.CREATING, InstanceEvent.VANISHED): InstancePhase.GONE,
        (InstancePhase.CREATING, InstanceEvent.CONDEMNED): InstancePhase.SHUTDOWN,
        (InstancePhase.UNKNOWN, InstanceEvent.READY): InstancePhase.IDLE,
        (InstancePhase.UNKNOWN, InstanceEvent.CONDEMNED): InstancePhase.SHUTDOWN,
        (InstancePhase.UNKNOWN, InstanceEvent.VANISHED): InstancePhase.GONE,
        (InstancePhase.BOOTING, InstanceEvent.READY): InstancePhase.IDLE,
        (InstancePhase.BOOTING, InstanceEvent.CONDEMNED): InstancePhase.SHUTDOWN,
        (InstancePhase.BOOTING, InstanceEvent.VANISHED): InstancePhase.GONE,
        (InstancePhase.IDLE, InstanceEvent.OCCUPIED): InstancePhase.RUNNING,
        (InstancePhase.IDLE, InstanceEvent.CONDEMNED): InstancePhase.SHUTDOWN,
        (InstancePhase.IDLE, InstanceEvent.VANISHED): InstancePhase.GONE,
        (InstancePhase.RUNNING, InstanceEvent.EMPTIED): InstancePhase.IDLE,
        (InstancePhase.RUNNING, InstanceEvent.CONDEMNED): InstancePhase.SHUTDOWN,
        (InstancePhase.RUNNING, InstanceEvent.VANISHED): InstancePhase.GONE,
        (InstancePhase.SHUTDOWN, InstanceEvent.VANISHED): InstancePhase.GONE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTimes:
    """Time limits for the shutdown of a VM, in seconds (`Containers.CloudVMs`)."""

    # The defaults of Arvados: a minute of an idle VM is cheaper than the boot of the next one; ten
    # minutes without an answer mean that a VM will not recover.
    idle: float = 60.0
    booting: float = 600.0
    probe: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """Inputs of the shutdown decision: `since` is when the phase began, `answered_at` when it last
    answered well, seconds.
    """

    phase: InstancePhase
    behavior: Behavior = Behavior.RUN
    since: float = 0.0
    answered_at: float = 0.0
    broken: str = ""
    known_type: bool = True


def step(phase: InstancePhase, event: InstanceEvent, *, name: str = "instance") -> InstancePhase:
    """The phase after an event. Raises IllegalTransition."""
    found = TABLE.get((phase, event))
    if found is None:
        raise IllegalTransition(name, phase, event)
    return found


def verdict(
    facts: InstanceFacts, times: InstanceTimes, *, now: float, over_quota: bool = False
) -> str:
    """Reason for shutting a VM down now, or "". `over_quota`: other containers wait for an
    instance.
    """
    if facts.behavior is Behavior.HOLD or facts.phase in (
        InstancePhase.CREATING,
        InstancePhase.SHUTDOWN,
        InstancePhase.GONE,
    ):
        return ""
    if facts.phase in (InstancePhase.UNKNOWN, InstancePhase.BOOTING):
        if facts.behavior is Behavior.DRAIN and facts.phase is InstancePhase.BOOTING:
            return "it is drained"
        if now >= facts.since + times.booting:
            return f"it did not become ready within {times.booting:g} s"
        return ""
    if now >= facts.answered_at + times.probe:
        return f"it has not answered for {times.probe:g} s"
    return (
        _idle_verdict(facts, times, now=now, over_quota=over_quota)
        if facts.phase is InstancePhase.IDLE
        else ""
    )


def _idle_verdict(
    facts: InstanceFacts, times: InstanceTimes, *, now: float, over_quota: bool
) -> str:
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


def next_moment(facts: InstanceFacts, times: InstanceTimes, *, now: float) -> float | None:
    """Time at which a verdict may change without an event, or None.

    The sums are those of `verdict`: else rounding could make it early there and late here.
    """
    moments: list[float] = []
    if facts.behavior is Behavior.HOLD:
        return None
    if facts.phase in (InstancePhase.UNKNOWN, InstancePhase.BOOTING):
        moments.append(facts.since + times.booting)
    if facts.phase in (InstancePhase.IDLE, InstancePhase.RUNNING):
        moments.append(facts.answered_at + times.probe)
    if facts.phase is InstancePhase.IDLE:
        moments.append(facts.since + times.idle)
    return min((moment for moment in moments if moment > now), default=None)

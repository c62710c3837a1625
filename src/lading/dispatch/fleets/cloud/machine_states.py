"""The VMs of a fleet as its dispatcher reports them (`core.scheduling.machines`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from lading.core.errors import NotFound
from lading.core.quantities import format_time
from lading.core.resources import Resources, total
from lading.core.scheduling.instance_lifecycle import Behavior
from lading.core.scheduling.machines import (
    MachineAction,
    MachineKind,
    MachineReport,
    MachineState,
    amount,
)
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleet import LookUp
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.pool import InstancePool
from lading.dispatch.fleets.cloud.supervisor_assignment import price_of


class CloudMachineFleet(Protocol):
    """Interface of a fleet that this module uses."""

    pool: InstancePool

    def container(self, uuid: str) -> TrackedContainer | None:
        """The container as the dispatcher knows it."""


class CloudMachines:
    """Implements MachineSource for a fleet; `clock` is the loop's, `wall` gives seconds since
    1970.
    """

    def __init__(
        self, fleet: CloudMachineFleet, *, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._wall = wall

    def machines(self) -> MachineReport:
        """The VMs, and what happened to them lately."""
        fleet, now, wall = self._fleet, self._clock(), self._wall()
        known = sorted(fleet.pool.machines.values(), key=lambda one: one.name)
        return MachineReport(
            machines=tuple(
                describe_machine(one, fleet.container, now=now, wall=wall) for one in known
            ),
            history=tuple(fleet.pool.history),
        )

    async def act(self, machine: str, action: MachineAction, reason: str) -> None:
        """Carry out an order of an admin. Raises NotFound, Unavailable."""
        pool = self._fleet.pool
        found = pool.by_name().get(machine)
        if found is None or found.instance is None:
            raise NotFound(f"{machine}: this dispatcher has no such instance")
        if action is MachineAction.KILL:
            pool.shut_down(found, f"killed by an operator: {reason or 'no reason given'}")
        else:
            await pool.hold(found, Behavior(action.value), reason)


def describe_machine(
    machine: CloudMachine, look_up: LookUp, *, now: float, wall: float
) -> MachineState:
    """A VM; `now` is on the loop's clock, `wall` in seconds since 1970."""
    kind = machine.kind
    uuids = sorted(machine.containers | machine.posts.keys())
    needs = (look_up(uuid) for uuid in uuids)
    # Whole seconds: the two clocks drift, and each change would be sent.
    made = datetime.fromtimestamp(round(wall - (now - machine.created)), UTC)
    return MachineState(
        id=machine.name[:400],
        kind=MachineKind.VM,
        state=machine.shown_phase.value,
        behavior=machine.behavior.value,
        type=machine.type[:400],
        address=machine.address[:400],
        price=max(0.0, price_of(machine, wall=wall)),
        since=format_time(made),
        total=amount(kind.resources if kind is not None else Resources()),
        reserved=amount(total(one.need for one in needs if one is not None)),
        containers=tuple(uuids)[:4096],
        actions=_actions(machine),
        note=(machine.why or machine.broken or machine.fault)[:400],
    )


def _actions(machine: CloudMachine) -> tuple[MachineAction, ...]:
    """Possible orders: none for a VM that is not there yet, or is going."""
    if machine.instance is None or machine.going:
        return ()
    lasting = {
        MachineAction.HOLD: Behavior.HOLD,
        MachineAction.DRAIN: Behavior.DRAIN,
        MachineAction.RUN: Behavior.RUN,
    }
    possible = [one for one, behavior in lasting.items() if behavior is not machine.behavior]
    return (*possible, MachineAction.KILL)

"""The VMs of a fleet as its dispatcher reports them (`core.scheduling.machines`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

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
from lading.dispatch.fleet import LookUp
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.pool import InstancePool
from lading.dispatch.fleets.cloud.supervisor_assignment import price_of


class CloudMachines:
    """Implements MachineSource for the VMs of a pool; `look_up` gives the container of a uuid as
    the dispatcher knows it, `clock` is the loop's, `wall` gives seconds since 1970.
    """

    def __init__(
        self,
        pool: InstancePool,
        look_up: LookUp,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._pool = pool
        self._look_up = look_up
        self._clock = clock
        self._wall = wall

    def machines(self) -> MachineReport:
        """The VMs, and what happened to them lately."""
        now, wall = self._clock(), self._wall()
        machines = sorted(self._pool.machines.values(), key=lambda machine: machine.name)
        return MachineReport(
            machines=tuple(
                describe_machine(machine, self._look_up, now=now, wall=wall) for machine in machines
            ),
            history=tuple(self._pool.history),
        )

    async def act(self, machine: str, action: MachineAction, reason: str) -> None:
        """Carry out an order of an admin. Raises NotFound, Unavailable."""
        target = self._pool.by_name().get(machine)
        if target is None or target.instance is None:
            raise NotFound(f"{machine}: this dispatcher has no such instance")
        if action is MachineAction.KILL:
            self._pool.shut_down(target, f"killed by an operator: {reason or 'no reason given'}")
        else:
            await self._pool.hold(target, Behavior(action.value), reason)


def describe_machine(
    machine: CloudMachine, look_up: LookUp, *, now: float, wall: float
) -> MachineState:
    """A VM; `now` is on the loop's clock, `wall` in seconds since 1970."""
    kind = machine.kind
    uuids = sorted(machine.containers | machine.posts.keys())
    needs = (look_up(uuid) for uuid in uuids)
    # Whole seconds: the two clocks drift, and each change would be sent.
    created = datetime.fromtimestamp(round(wall - (now - machine.created)), UTC)
    return MachineState(
        id=machine.name[:400],
        kind=MachineKind.VM,
        state=machine.shown_phase.value,
        behavior=machine.behavior.value,
        type=machine.type[:400],
        address=machine.address[:400],
        price=max(0.0, price_of(machine, wall=wall)),
        since=format_time(created),
        total=amount(kind.resources if kind is not None else Resources()),
        reserved=amount(total(container.need for container in needs if container is not None)),
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
    possible = [action for action, behavior in lasting.items() if behavior is not machine.behavior]
    return (*possible, MachineAction.KILL)

"""Reports about the machines of a fleet to the API, and the orders that come back.

`MachineReporter` sends the machines when they have changed, and otherwise a sign of life; the
answer has the orders of admins. A fleet says itself by a `machine_source` which machines it has; of
another one the workers in its view are reported, which take no orders. A server that does not know
the machines, as after its start, is sent all of them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, runtime_checkable

import msgspec

from lading.client.api import ApiClient
from lading.core.errors import Forbidden, LadingError, NotFound
from lading.core.resources import total
from lading.core.scheduling.machines import (
    MOST_MACHINES,
    MachineAction,
    MachineKind,
    MachineOrder,
    MachineReport,
    MachineState,
    amount,
    read_answer,
)
from lading.dispatch.fleet import Fleet, FleetView, LookUp
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch")


class MachineSource(Protocol):
    """Knows the machines of a fleet and takes orders for them."""

    def machines(self) -> MachineReport:
        """The machines, and what happened to them lately."""

    async def act(self, machine: str, action: MachineAction, reason: str) -> None:
        """Carry out an order. Raises NotFound, Conflict, Unavailable."""


@runtime_checkable
class WithMachines(Protocol):
    """A fleet that knows its machines itself."""

    machine_source: MachineSource


class MachineReporter:
    """Sends reports every `interval` seconds."""

    def __init__(
        self, client: ApiClient, fleet: Fleet, look_up: LookUp, *, interval: float
    ) -> None:
        self._client = client
        self._fleet = fleet
        self._source = fleet.machine_source if isinstance(fleet, WithMachines) else None
        self._look_up = look_up
        self._interval = interval
        self._sent: MachineReport | None = None

    async def run(self) -> None:
        """Report for ever, or until the server takes no reports of this dispatcher."""
        while True:
            try:
                await self.report()
            except (Forbidden, NotFound) as error:
                # The token of a dispatcher of an earlier release, or a server of one.
                event(_logger, "machines are not reported", why=error)
                return
            except LadingError as error:
                self._sent = None
                event(_logger, "machines not reported", why=error)
            await asyncio.sleep(self._interval)

    async def report(self) -> None:
        """Send one report, and carry out the orders that come back. Raises the errors of the
        client, and Invalid for an answer of another form.
        """
        source = self._source
        present = source.machines() if source else describe(self._fleet.view(), self._look_up)
        if len(present.machines) > MOST_MACHINES:
            present = msgspec.structs.replace(present, machines=present.machines[:MOST_MACHINES])
        body = None if present == self._sent else msgspec.to_builtins(present)
        answer = await self._client.request("POST", "dispatch/machines", body={"report": body})
        read = read_answer(answer)
        self._sent = present if read.is_known else None
        for order in read.orders:
            if source is not None:
                await self._carry_out(order, source)

    async def _carry_out(self, order: MachineOrder, source: MachineSource) -> None:
        event(
            _logger, "machine ordered", machine=order.machine, action=order.action, why=order.reason
        )
        try:
            await source.act(order.machine, order.action, order.reason)
        except LadingError as error:
            event(_logger, "order refused", machine=order.machine, why=error)


def describe(view: FleetView, look_up: LookUp) -> MachineReport:
    """The workers of a fleet's view."""
    return MachineReport(
        machines=tuple(
            describe_worker(view, worker.id, look_up, kind=MachineKind.NODE)
            for worker in view.workers
        )
    )


def describe_worker(
    view: FleetView, worker: str, look_up: LookUp, *, kind: MachineKind
) -> MachineState:
    """A worker of a view with what runs there."""
    running = {
        uuid: process
        for uuid, process in view.processes.items()
        if process.alive and worker in (process.worker, *process.others)
    }
    # One that asks for its resources has not got them yet.
    needs = ((look_up(uuid), process) for uuid, process in running.items() if not process.asking)
    shown = next((candidate for candidate in view.workers if candidate.id == worker), None)
    return MachineState(
        id=worker,
        kind=kind,
        state="running" if running else "idle",
        total=amount(shown.capacity) if shown is not None else amount(total(())),
        reserved=amount(
            total(process.takes(container.need) for container, process in needs if container)
        ),
        containers=tuple(sorted(running))[:4096],
    )

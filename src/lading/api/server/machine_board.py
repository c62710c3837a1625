"""Reports of dispatchers about machines, and the orders of admins that wait for the next report.

As with wait statuses, a server that is alone keeps them in memory; servers that share a database
store them there. A report of a dispatcher that has been silent for SILENCE is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from lading.api.server.features import FeatureKey
from lading.api.server.wait_statuses import believed_since
from lading.core import resources
from lading.core.policy import fair_share
from lading.core.resources import Resources
from lading.core.scheduling.machines import MachineOrder, MachineReport
from lading.store import statuses
from lading.store.database import Database


@dataclass(frozen=True, slots=True)
class DispatcherReport:
    """The last report of a dispatcher, named by its token, and its time (API timestamp)."""

    dispatcher: str
    reported_at: str
    report: MachineReport


class MachineBoard(Protocol):
    """A store of reports and orders. Times are texts in the API's format."""

    async def put(self, dispatcher: str, report: MachineReport | None, now: str) -> bool:
        """Store a report; None says that nothing has changed. False when the last one is not
        known.
        """

    async def reports(self, now: str) -> list[DispatcherReport]:
        """The last report of each dispatcher that is not silent."""

    async def order(self, dispatcher: str, order: MachineOrder) -> None:
        """Store an order, in place of an earlier one for the same machine."""

    async def take_orders(self, dispatcher: str) -> list[MachineOrder]:
        """Take the orders of a dispatcher away, and return them."""


class KnownCapacity:
    """The ratios of the resources of all machines that dispatchers reported lately."""

    def __init__(self) -> None:
        self.ratios = fair_share.Ratios()

    async def refresh(self, machines: MachineBoard, now: str) -> None:
        """Read the latest reports."""
        reports = await machines.reports(now)
        totals = [machine.total for report in reports for machine in report.report.machines]
        self.ratios = fair_share.ratios_of(
            resources.total(Resources(total.vcpus, total.ram, 0, total.gpus) for total in totals)
        )


class OwnMachines:
    """Reports and orders in the memory of the only server process."""

    def __init__(self) -> None:
        self._reports: dict[str, DispatcherReport] = {}
        self._orders: dict[str, dict[str, MachineOrder]] = {}

    async def put(self, dispatcher: str, report: MachineReport | None, now: str) -> bool:
        """Keep a report."""
        last = self._reports.get(dispatcher)
        if report is None and last is None:
            return False
        self._reports[dispatcher] = DispatcherReport(
            dispatcher, now, report or (last.report if last else MachineReport())
        )
        return True

    async def reports(self, now: str) -> list[DispatcherReport]:
        """The last reports."""
        since = believed_since(now)
        return [
            report for _, report in sorted(self._reports.items()) if report.reported_at >= since
        ]

    async def order(self, dispatcher: str, order: MachineOrder) -> None:
        """Keep an order."""
        self._orders.setdefault(dispatcher, {})[order.machine] = order

    async def take_orders(self, dispatcher: str) -> list[MachineOrder]:
        """Take the orders away."""
        return list(self._orders.pop(dispatcher, {}).values())


class SharedMachines:
    """Reports and orders in the database that several server processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, dispatcher: str, report: MachineReport | None, now: str) -> bool:
        """Store a report."""
        text = None if report is None else msgspec.json.encode(report).decode()
        async with self._database.writing() as tx:
            return await statuses.put_machines(tx, dispatcher, text, now=now)

    async def reports(self, now: str) -> list[DispatcherReport]:
        """The last reports."""
        async with self._database.reading() as tx:
            rows = await statuses.machines(tx, since=believed_since(now))
        return [
            DispatcherReport(dispatcher, at, msgspec.json.decode(encoded, type=MachineReport))
            for dispatcher, at, encoded in rows
        ]

    async def order(self, dispatcher: str, order: MachineOrder) -> None:
        """Store an order."""
        async with self._database.writing() as tx:
            await statuses.put_order(
                tx, dispatcher, order.machine, msgspec.json.encode(order).decode()
            )

    async def take_orders(self, dispatcher: str) -> list[MachineOrder]:
        """Take the orders away."""
        async with self._database.writing() as tx:
            texts = await statuses.take_orders(tx, dispatcher)
        return [msgspec.json.decode(encoded, type=MachineOrder) for encoded in texts]


MACHINES: Final = FeatureKey[MachineBoard]("machines")
CAPACITY: Final = FeatureKey("capacity", KnownCapacity)

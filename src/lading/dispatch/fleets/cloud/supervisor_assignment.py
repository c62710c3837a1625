"""The assignment of a supervisor on a cloud VM: its container, directories, and price of the VM.

The price counts with the container's share of the VM (`core.resources`). Preemptible VMs have the
cloud's price history (`Prices`):

- Only a driver that has prices is asked (`Priced`), for each type and zone of the present
  preemptible VMs, once in its interval; when it refuses, the known prices stay, and it is asked
  again a minute later.
- A VM without a known price has the configured price of its type.
- Each VM gets a new history of its type and zone; its supervisors then report the cost of their
  containers until now.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from lading.core import resources
from lading.core.errors import LadingError, Unavailable
from lading.core.resources import Price, Resources, cost
from lading.core.resources import machine_share as share
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleet import Spending, StartRequest
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch.fleets.cloud")
# Seconds between two looks for due queries, until a failed query is repeated, and for one query.
_PERIOD, _AGAIN, _TIMEOUT = 5.0, 60.0, 60.0
# Changes of a spot price that are kept for a type and zone: more than a month has.
_KEPT = 500


@runtime_checkable
class Priced(Protocol):
    """A driver with a price history of preemptible VMs. `price_interval` is seconds between two
    queries.
    """

    price_interval: float

    async def price_history(
        self, kind: InstanceType, zone: str, *, since: datetime
    ) -> Sequence[Price]:
        """The prices of a type in a zone ("": of all), from the one at `since` on. Raises as
        `Driver.list`.
        """


class Prices:
    """Run `serve` as a task. `machines` are the VMs of the moment; `clock` and `wall` are
    seconds.
    """

    def __init__(
        self,
        driver: object,
        machines: Callable[[], Iterable[CloudMachine]],
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._driver = driver
        self._machines = machines
        self._clock = clock
        self._wall = wall
        self._histories: dict[tuple[str, str], tuple[Price, ...]] = {}
        self._due: dict[tuple[str, str], float] = {}

    async def serve(self) -> None:
        """Keep prices up to date for ever; nothing where the cloud has none."""
        if not isinstance(self._driver, Priced):
            return
        while True:
            await self.look()
            await asyncio.sleep(_PERIOD)

    async def look(self) -> None:
        """Query the due prices, and send new ones to VMs."""
        if not isinstance(self._driver, Priced):
            return
        for machine in list(self._machines()):
            if (
                machine.kind is None
                or not machine.kind.preemptible
                or machine.instance is None
                or machine.going
            ):
                continue
            key = (machine.kind.name, machine.instance.zone)
            if self._clock() >= self._due.get(key, 0.0):
                await self._ask(self._driver, machine.kind, key)
            machine.prices = self._histories.get(key, ())
            if (
                machine.prices
                and machine.prices != machine.prices_told
                and machine.link is not None
            ):
                await self._tell(machine)

    async def _ask(self, driver: Priced, kind: InstanceType, key: tuple[str, str]) -> None:
        # The price that holds now may be older than the interval: a history has changes only.
        since = datetime.fromtimestamp(self._wall() - 3 * driver.price_interval, UTC)
        try:
            async with asyncio.timeout(_TIMEOUT):
                history = await driver.price_history(kind, key[1], since=since)
        except (LadingError, TimeoutError) as error:
            why = error.message if isinstance(error, LadingError) else "no answer in time"
            event(_logger, "prices not known", type=kind.name, zone=key[1], why=why)
            self._due[key] = self._clock() + _AGAIN
            return
        self._due[key] = self._clock() + driver.price_interval
        self._histories[key] = tuple(sorted({*self._histories.get(key, ()), *history})[-_KEPT:])

    async def _tell(self, machine: CloudMachine) -> None:
        history = [
            {"StartTime": price.start.isoformat().replace("+00:00", "Z"), "Price": price.amount}
            for price in reversed(machine.prices)
        ]
        assert machine.link is not None
        try:
            await machine.link.request("prices", timeout=_TIMEOUT, history=history)
        except Unavailable:
            # The connection is being made again.
            return
        machine.prices_told = machine.prices


def price_of(machine: CloudMachine, *, wall: float) -> float:
    """Dollars an hour that a VM costs now."""
    now = datetime.fromtimestamp(wall, UTC)
    past = [price.amount for price in machine.prices if price.start <= now]
    if past or machine.prices:
        # A history that begins later than now is of no use for it: its first price is the nearest
        # one.
        return past[-1] if past else machine.prices[0].amount
    return machine.kind.price if machine.kind is not None else 0.0


def spending(machine: CloudMachine, need: Resources, *, wall: float) -> Spending | None:
    """Cost of a container of this size that ends with its VM now; None for a VM without a price."""
    end = datetime.fromtimestamp(wall, UTC)
    prices = machine.prices or (Price(end, price_of(machine, wall=wall)),)
    if machine.kind is None or not any(price.amount for price in prices):
        return None
    capacity = machine.kind.resources
    fraction = share({"VCPUs": capacity.vcpus, "RAM": capacity.ram}, vcpus=need.vcpus, ram=need.ram)
    return Spending(prices, fraction, end)


def spent(machine: CloudMachine, *, now: float, wall: float) -> float:
    """Dollars that a VM has cost since it was made; `now` is on the loop's clock, as the times of a
    machine are.
    """
    end = datetime.fromtimestamp(wall, UTC)
    start = datetime.fromtimestamp(wall - (now - machine.created), UTC)
    prices = machine.prices or (Price(start, price_of(machine, wall=wall)),)
    return cost(prices, start, end)


def make_assignment(
    assignment: StartRequest,
    kind: InstanceType,
    settings: CloudSettings,
    *,
    find: Callable[[str], CloudMachine | None],
    certificate_path: str,
    preemption: str,
    outposts: dict[str, object] | None,
) -> dict[str, object]:
    """The assignment of a supervisor on a VM of this type. `find` gives a VM by its name."""
    directory = settings.directory
    return dict(settings.template) | {
        "container_uuid": assignment.uuid,
        "supervisor_token": assignment.token,
        "run_directory": f"{directory}/run/{assignment.uuid}",
        "cache_directory": f"{directory}/cache",
        "lock_directory": f"{directory}/locks",
        "api_ca_file": certificate_path,
        "instance_type": described(kind),
        "preemption": preemption if kind.preemptible else "",
        "outposts": outposts,
        "instance_share": _share(assignment, kind, find),
    }


def _share(
    assignment: StartRequest, kind: InstanceType, find: Callable[[str], CloudMachine | None]
) -> float:
    """Price of a gang as a multiple of the price of its first VM; 0 if the size of one container
    decides.
    """
    container = assignment.container
    if container.nodes == 1:
        return 0.0
    where = Counter((assignment.worker, *assignment.others) if assignment.others else ())
    parts = [
        (found.kind, ranks) for name, ranks in where.items() if (found := find(name)) is not None
    ]
    return gang_share(kind, parts or [(kind, container.nodes)], each=container.each)


def gang_share(
    first: InstanceType, parts: Iterable[tuple[InstanceType | None, int]], *, each: Resources
) -> float:
    """Price of a gang's shares of its VMs, by ranks on each, as a multiple of the first VM's
    price.
    """
    total = 0.0
    for kind, ranks in parts:
        if kind is not None:
            part = resources.machine_share(
                described(kind), vcpus=each.vcpus * ranks, ram=each.ram * ranks
            )
            total += part * (kind.price / first.price if first.price else 1.0)
    return total


def described(kind: InstanceType) -> dict[str, object]:
    """An instance type as node.json shows it."""
    return {
        "Name": kind.name,
        "ProviderType": kind.provider_type,
        "VCPUs": kind.resources.vcpus,
        "RAM": kind.resources.ram,
        "Scratch": kind.resources.disk,
        "AddedScratch": kind.added,
        "Price": kind.price,
        "Preemptible": kind.preemptible,
    }

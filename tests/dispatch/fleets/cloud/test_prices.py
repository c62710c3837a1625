"""Prices of spot VMs, with a fake cloud that has some, in made-up time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from lading.core.errors import Unavailable
from lading.core.quantities import format_time
from lading.core.resources import GIB, Price, Resources
from lading.core.scheduling.instance_lifecycle import InstancePhase
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import Instance
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.supervisor_assignment import Prices, price_of, spending, spent
from lading.testing.cloud import FakeCloud
from lading.testing.simulated_loop import pass_time, play

START = datetime(2030, 1, 1, tzinfo=UTC)
SPOT = InstanceType(
    name="spot", provider_type="m5", resources=Resources(2, GIB), price=1.0, preemptible=True,
    added=0,
)  # fmt: skip


class Market:
    """A driver with a price that rises each hour."""

    price_interval = 3600.0

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, datetime]] = []
        self.fails = False

    async def price_history(
        self, kind: InstanceType, zone: str, *, since: datetime
    ) -> Sequence[Price]:
        self.asked.append((kind.name, zone, since))
        if self.fails:
            raise Unavailable("EC2 cannot be reached")
        hour = int(asyncio.get_running_loop().time() // 3600)
        return [Price(START + timedelta(hours=n), 0.1 * (n + 1)) for n in range(hour + 1)]


class Heard:
    """A link that remembers."""

    def __init__(self) -> None:
        self.told: list[list[dict[str, Any]]] = []
        self.broken = False

    async def request(
        self, op: str, *, timeout: float, history: list[dict[str, Any]]
    ) -> dict[str, Any]:
        assert op == "prices"
        if self.broken:
            raise Unavailable("lost")
        self.told.append(history)
        return {}


def machine(zone: str = "a", kind: InstanceType = SPOT) -> CloudMachine:
    one = CloudMachine(
        key=zone, type=kind.name, secret="", kind=kind, instance=Instance(id=zone, zone=zone)
    )
    one.phase = InstancePhase.IDLE
    one.link = Heard()  # type: ignore[assignment]
    return one


def prices(market: object, *machines: CloudMachine) -> Prices:
    loop = asyncio.get_running_loop()
    return Prices(
        market, lambda: machines, clock=loop.time, wall=lambda: START.timestamp() + loop.time()
    )


def heard(one: CloudMachine) -> Heard:
    link: object = one.link
    assert isinstance(link, Heard)
    return link


def test_each_type_and_zone_is_asked_for_once_in_a_while_and_told_when_new() -> None:
    market, one, two, other = Market(), machine(), machine(), machine("b")
    fixed = machine("c", structs.replace(SPOT, preemptible=False))

    async def scene() -> None:
        serving = asyncio.create_task(prices(market, one, two, other, fixed).serve())
        await pass_time(3500)
        assert [asked[:2] for asked in market.asked] == [("spot", "a"), ("spot", "b")]
        assert market.asked[0][2] == START - timedelta(hours=3)
        assert (
            heard(one).told
            == heard(two).told
            == [[{"StartTime": "2030-01-01T00:00:00Z", "Price": 0.1}]]
        )
        await pass_time(200)
        assert len(market.asked) == 4
        assert [price["Price"] for price in heard(one).told[1]] == [0.2, 0.1]
        assert heard(fixed).told == []
        serving.cancel()

    play(scene())


def test_what_is_known_stays_when_the_cloud_does_not_say(caplog: pytest.LogCaptureFixture) -> None:
    market, one = Market(), machine()

    async def scene() -> None:
        watching = prices(market, one)
        await watching.look()
        known, market.fails = one.prices, True
        await pass_time(3700)
        await watching.look()
        assert one.prices == known != ()
        await watching.look()
        assert len(market.asked) == 2
        await pass_time(61)
        market.fails = False
        await watching.look()
        assert len(one.prices) == 2

    play(scene())


def test_a_vm_that_is_not_reached_is_told_later_and_one_that_goes_is_not() -> None:
    market, one, going = Market(), machine(), machine("b")
    going.phase = InstancePhase.SHUTDOWN

    async def scene() -> None:
        watching = prices(market, one, going)
        heard(one).broken = True
        await watching.look()
        heard(one).broken = False
        await watching.look()
        assert len(heard(one).told) == 1
        assert heard(going).told == []

    play(scene())


def test_a_cloud_without_prices_is_not_asked() -> None:
    async def scene() -> None:
        watching = prices(FakeCloud(), machine())
        await watching.look()
        await watching.serve()

    play(scene())


def test_what_a_vm_costs() -> None:
    one, wall = machine(), START.timestamp() + 7200
    one.created = 100.0
    assert price_of(one, wall=wall) == 1.0
    assert spent(one, now=3700.0, wall=wall) == pytest.approx(1.0)
    one.prices = (
        Price(START, 0.1),
        Price(START + timedelta(minutes=90), 0.3),
        Price(START + timedelta(days=1), 9.0),
    )
    assert price_of(one, wall=wall) == 0.3
    assert spent(one, now=3700.0, wall=wall) == pytest.approx(0.05 + 0.15)
    assert price_of(one, wall=START.timestamp() - 1) == 0.1
    one.kind, one.prices = None, ()
    assert price_of(one, wall=wall) == 0.0


def test_what_a_container_pays_that_is_lost_with_its_vm() -> None:
    machine = CloudMachine(key="k", type="spot", secret="", kind=SPOT)
    lost = spending(machine, Resources(1, GIB // 2), wall=START.timestamp())
    assert lost is not None
    assert lost.since(format_time(START - timedelta(hours=2))) == pytest.approx(1.0)
    machine.prices = (Price(START - timedelta(hours=1), 4.0),)
    lost = spending(machine, Resources(2, GIB), wall=START.timestamp())
    assert lost is not None
    assert lost.since(format_time(START - timedelta(hours=1))) == pytest.approx(4.0)
    free = CloudMachine(key="k", type="spot", secret="", kind=structs.replace(SPOT, price=0.0))
    assert spending(free, Resources(1, GIB), wall=START.timestamp()) is None

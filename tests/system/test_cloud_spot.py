"""Requests that prefer spot VMs on an EC2 that takes them away: other types, then ordinary VMs, and
their costs. Real parts: EC2's protocol, VMs with a real sshd, a real server and dispatcher.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from moto.core.responses import ActionResult
from moto.ec2.responses.spot_instances import SpotInstances

from tests.reality import need_program, need_root
from tests.system.cloud import TYPES, Cloud, running_cloud, until_no_vm
from tests.system.desk import Desk, desk_of

pytestmark = [pytest.mark.system, pytest.mark.long]

# Dollars an hour. Of its VM a container takes a fifth, so that a cent is more than 250 ms.
ORDINARY, SPOT, OTHER_SPOT = Decimal(720), Decimal(180), Decimal(216)
SMALL = TYPES["small"]
SITE = {
    "small": {**SMALL, "ProviderType": "m5.large", "Price": float(ORDINARY)},
    "spot": {**SMALL, "Price": float(SPOT) * 1.2, "Preemptible": True},
    "other": {
        **SMALL, "ProviderType": "t3.medium", "Price": float(OTHER_SPOT) * 1.2, "Preemptible": True,
    },
}  # fmt: skip
MARKET = {"t3.small": SPOT, "t3.medium": OTHER_SPOT}
"""What EC2's price history says, in place of the price of a type."""
PRICES = MARKET | {"m5.large": ORDINARY}
VCPUS, RAM = 1, 64 << 20
SHARE = (Decimal(VCPUS) / 3 + Decimal(RAM) / (1 << 30)) / 2
PREFER = {"preemptible": "prefer", "spot_attempts": 2}


_moto_history = SpotInstances.describe_spot_price_history


def price_history(service: SpotInstances) -> ActionResult:
    """Moto's history, in which all costs next to nothing, with prices that count."""
    answer = _moto_history(service)
    history: Any = answer.result
    for one in history["SpotPriceHistory"]:
        one["SpotPrice"] = f"{MARKET[one['InstanceType']]}"
    return answer


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter", "crun"):
        need_program(program)
    monkeypatch.setattr(SpotInstances, "describe_spot_price_history", price_history)
    with running_cloud(tmp_path, types=SITE, MaxInstances=2) as made:
        yield made


def there(cloud: Cloud) -> str:
    """EC2's name of the type of the one VM that runs."""
    return ",".join(sorted(one["InstanceType"] for one in cloud.ec2.running().values()))


async def ran(desk: Desk, cloud: Cloud, uuid: str) -> tuple[dict[str, Any], str]:
    """The container of a request once it runs, and the type of its VM."""
    container = await desk.until(uuid, "Running")
    return container, await asyncio.to_thread(there, cloud)


async def take_away(desk: Desk, cloud: Cloud, uuid: str) -> dict[str, Any]:
    """Have EC2 take the VM of a request away; its container once it has ended."""
    container = await desk.container(uuid)
    await asyncio.sleep(3.0)
    instances = list(cloud.ec2.running())
    await asyncio.to_thread(cloud.ec2.client.terminate_instances, InstanceIds=instances)
    while True:
        ended: dict[str, Any] = await desk.client.get("containers", container["uuid"])
        if ended["state"] == "Cancelled":
            assert ended["runtime_status"]["failure"] == "preempted"
            return ended
        await asyncio.sleep(0.05)


def charged(container: dict[str, Any], type_: str) -> Decimal:
    """Dollars for a container, by its times, the market and its part of a VM."""
    begin, end = (
        datetime.fromisoformat(container[name].replace("Z", "+00:00")[:26] + "+00:00")
        for name in ("started_at", "finished_at")
    )
    return Decimal((end - begin).total_seconds()) / 3600 * PRICES[type_] * SHARE


async def test_reclaimed_requests_fall_back_and_the_costs_add_up(cloud: Cloud) -> None:
    await asyncio.to_thread(cloud.start)
    async with desk_of(cloud.cluster, limit=240) as desk:
        constraints = {"vcpus": VCPUS, "ram": RAM}
        uuid = await desk.submit(
            "echo began; sleep 8",
            scheduling_parameters=PREFER,
            runtime_constraints=constraints,
            container_count_max=5,
        )
        first, where = await ran(desk, cloud, uuid)
        # A boolean for the clients of Arvados.
        scheduling = first["scheduling_parameters"]
        assert (scheduling["preemptible"], scheduling["prefer_preemptible"]) == (True, True)
        assert where == "t3.small"
        lost = [(await take_away(desk, cloud, uuid), where)]
        # The type that was taken away is avoided: the other one takes its place.
        _, where = await ran(desk, cloud, uuid)
        assert where == "t3.medium"
        lost.append((await take_away(desk, cloud, uuid), where))
        _, where = await ran(desk, cloud, uuid)
        assert where == "m5.large"
        done = await desk.until(uuid, "Complete")
        assert (done["exit_code"], done["scheduling_parameters"]["preemptible"]) == (0, False)
        assert (await desk.client.get("container_requests", uuid))["container_count"] == 3

        # A dispatcher that was killed remembers what was taken away.
        await asyncio.to_thread(cloud.stop, signal.SIGKILL)
        await asyncio.to_thread(until_gone, cloud)
        await asyncio.to_thread(cloud.start)
        another = await desk.submit(
            "sleep 2", scheduling_parameters=PREFER, runtime_constraints=constraints
        )
        said = await desk.until_told(another, "no preemptible one")
        assert "was taken away" in said
        _, type_ = await ran(desk, cloud, another)
        assert type_ == "m5.large"
        finished = await desk.until(another, "Complete")
        await until_no_vm(cloud)

    losses = [charged(*one) for one in lost]
    runs = [charged(done, "m5.large"), charged(finished, "m5.large")]
    assert all(one > Decimal("0.05") for one in (*losses, *runs)), (losses, runs)
    report = json.loads(cloud.cluster.lading("cost", "--json", "--by", "tool").stdout)
    total = report["total"]
    assert total["requests"] == 2
    close(total["lost_to_preemption"], sum(losses, Decimal()))
    close(total["spent"], sum(losses, Decimal()) + sum(runs, Decimal()))
    assert total["lost_to_failures"] == total["saved_by_reuse"] == 0


def close(told: float, summed: Decimal) -> None:
    """Check that an amount is right to the cent."""
    assert abs(Decimal(told) - summed) < Decimal("0.01"), (told, summed)


def until_gone(cloud: Cloud) -> None:
    """Remove the VMs, as nobody does meanwhile."""
    instances = list(cloud.ec2.running())
    if instances:
        cloud.ec2.client.terminate_instances(InstanceIds=instances)

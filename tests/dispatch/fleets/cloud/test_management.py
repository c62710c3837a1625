from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lading.core.containers.container import ContainerState
from lading.core.errors import Invalid
from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_lifecycle import Behavior
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.planning import Snapshot, TrackedContainer
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.instance_journal import MachineLogRecord, MachineLogs
from lading.dispatch.fleets.cloud.management import managing
from lading.dispatch.monitoring import parse_address

from .scene import fleet_with_a_vm

ONE, TWO, THREE = (f"zzzzz-dz642-00000000000000{number}" for number in (1, 2, 3))
DISPATCH = "/arvados/v1/dispatch"


class Site:
    """A fleet with one VM and one container there, and its interface."""

    def __init__(self, url: str, fleet: CloudFleet, session: aiohttp.ClientSession) -> None:
        self.url, self.fleet, self.session = url, fleet, session

    async def ask(
        self, method: str, path: str, *, token: str = "hush", **data: str
    ) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.request(
            method, self.url + path, headers=headers, data=data or None
        ) as answer:
            body: Any = await (answer.json() if "json" in answer.content_type else answer.text())
            return answer.status, body


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with fleet_with_a_vm() as (fleet, vms):
        await fleet.start(StartRequest(uuid=ONE, worker="i-1", token="t"))
        async with (
            managing(fleet, "127.0.0.1:0", "hush") as url,
            aiohttp.ClientSession() as session,
        ):
            yield Site(url, fleet, session)
    vms.take("i-1")


async def test_only_who_has_the_token_is_answered(site: Site) -> None:
    assert (await site.ask("GET", f"{DISPATCH}/instances", token=""))[0] == 401
    assert (await site.ask("GET", "/metrics", token="other"))[0] == 403
    assert await site.ask("GET", "/_health/ping") == (200, {"health": "OK"})


async def test_instances_have_the_fields_that_clients_know(site: Site) -> None:
    status, answer = await site.ask("GET", f"{DISPATCH}/instances")
    (one,) = answer["items"]
    assert status == 200
    assert one["instance"] == "i-1"
    assert one["worker_state"] == "running"
    assert one["idle_behavior"] == "run"
    assert one["arvados_instance_type"] == "type1"
    assert one["provider_instance_type"] == "provider1"
    assert one["running_container_uuids"] == [ONE]
    assert one["last_container_uuid"] == ONE
    assert one["last_busy"]
    assert one["cost"] >= 0.0


async def test_containers_are_listed_and_found(site: Site) -> None:
    status, answer = await site.ask("GET", f"{DISPATCH}/containers")
    assert status == 200
    (one,) = answer["items"]
    assert one["container"] == {"uuid": ONE}
    assert one["scheduling_status"] == "running on i-1"
    assert (await site.ask("GET", f"{DISPATCH}/container?container_uuid={ONE}"))[0] == 200
    assert (await site.ask("GET", f"{DISPATCH}/container?container_uuid=other"))[0] == 404
    assert (await site.ask("GET", f"{DISPATCH}/container"))[0] == 400


async def test_an_entry_has_the_fields_that_clients_know(site: Site) -> None:
    fleet, seen = site.fleet, asyncio.get_running_loop().time() - 3600.0
    fleet.set_lookup(
        lambda _: TrackedContainer(
            uuid=ONE, need=Resources(2, GIB, 5, 1), state=ContainerState.LOCKED, priority=7,
            created_at="t", seen_at=seen, gpu=Gpu(vram=9),
        )
    )  # fmt: skip
    fleet.plan(
        Snapshot(
            queue=(
                TrackedContainer(uuid=TWO, priority=3, created_at="t", need=Resources(2, GIB)),
                TrackedContainer(uuid=THREE, priority=9, created_at="t", need=Resources(999, GIB)),
            )
        )
    )
    first, second, third = (await site.ask("GET", f"{DISPATCH}/containers"))[1]["items"]
    assert [one["container"]["uuid"] for one in (first, second, third)] == [ONE, THREE, TWO]
    assert first["container"] == {"uuid": ONE, "state": "Locked", "priority": 7, "created_at": "t"}
    assert first["instance_resources"] == {
        "VCPUs": 2,
        "RAM": GIB,
        "Scratch": 5,
        "GPUs": 1,
        "GPUVRAM": 9,
    }
    assert datetime.now(UTC) - datetime.fromisoformat(first["first_seen_at"]) >= timedelta(
        seconds=3600
    )
    assert [kind["Name"] for kind in first["instance_types"]] == ["type1"]
    assert second["scheduling_status"].startswith("No instance type can hold it")
    assert second["instance_types"] == []
    assert second["instance_type"] is None
    assert third["instance_type"] == third["instance_types"][0]
    assert third["instance_type"]["Name"] == "type2"
    assert third["scheduling_status"].startswith("Waiting for a type2 instance to boot")


async def test_a_container_can_be_stopped(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert (await site.ask("POST", f"{DISPATCH}/containers/kill", container_uuid="other"))[0] == 404
    assert (await site.ask("POST", f"{DISPATCH}/containers/kill"))[0] == 400
    assert (
        await site.ask("POST", f"{DISPATCH}/containers/kill", container_uuid=ONE, reason="why not")
    )[0] == 200
    assert any("why not" in str(record.__dict__) for record in caplog.records)
    while site.fleet.view().processes[ONE].alive:
        await site.fleet.changed()


async def test_instances_are_held_drained_used_again_and_removed(site: Site) -> None:
    (one,) = site.fleet.pool.machines.values()
    for act, behavior in (
        ("hold", Behavior.HOLD),
        ("drain", Behavior.DRAIN),
        ("run", Behavior.RUN),
    ):
        assert (await site.ask("POST", f"{DISPATCH}/instances/{act}", instance_id="i-1"))[0] == 200
        assert one.behavior is behavior
    assert (await site.ask("POST", f"{DISPATCH}/instances/hold", instance_id="i-9"))[0] == 404
    assert (await site.ask("POST", f"{DISPATCH}/instances/hold"))[0] == 400
    assert (
        await site.ask("POST", f"{DISPATCH}/instances/kill", instance_id="i-1", reason="it is odd")
    )[0] == 200
    assert one.why == "killed by an operator: it is odd"


@pytest.mark.parametrize("path", ["/metrics", "/metrics.json"])
async def test_metrics_are_those_of_the_fleet(site: Site, path: str) -> None:
    status, text = await site.ask("GET", path)
    assert status == 200
    assert 'arvados_dispatchcloud_driver_operations{error="0",operation="Create"} 1.0' in text
    assert (
        'arvados_dispatchcloud_instances_total{category="inuse",instance_type="type1"} 1.0' in text
    )


async def test_health_is_that_of_the_cloud(site: Site) -> None:
    site.fleet.pool.fault = "it is not there"
    said = {"health": "ERROR", "error": "the cloud does not list its instances: it is not there"}
    assert await site.ask("GET", "/_health/ping") == (503, said)
    site.fleet.pool.fault, site.fleet.pool.listed = "", False
    assert (await site.ask("GET", "/_health/ping"))[1]["error"] == "they were not listed yet"


async def test_an_interface_that_cannot_be_served_is_refused(site: Site) -> None:
    port = site.url.rpartition(":")[2]
    with pytest.raises(Invalid, match=r"ManagementAddress: '127.0.0.1:\d+' cannot be served: "):
        async with managing(site.fleet, f"127.0.0.1:{port}", "hush"):
            pass
    with pytest.raises(Invalid, match="ManagementToken: it is empty"):
        async with managing(site.fleet, "127.0.0.1:0", ""):
            pass
    with pytest.raises(Invalid, match="'here'; it must be HOST:PORT"):
        parse_address("here", key="Containers.CloudVMs.ManagementAddress")


async def test_logs_of_vms_that_are_gone_are_shown(site: Site, tmp_path: Path) -> None:
    site.fleet.pool.journal.logs = MachineLogs(tmp_path)
    assert await site.ask("GET", f"{DISPATCH}/instances/logs") == (200, {"items": []})
    record = MachineLogRecord(id="i/9", type="small", at=1e9, why="it did not boot")
    site.fleet.pool.journal.logs.keep(record, {"console.log": b"panic"})
    item = {
        "instance": "i/9", "arvados_instance_type": "small", "at": "2001-09-09T01:46:40+00:00",
        "fault": "it did not boot", "logs": {"console.log": 5},
    }  # fmt: skip
    assert await site.ask("GET", f"{DISPATCH}/instances/logs") == (200, {"items": [item]})
    status, one = await site.ask("GET", f"{DISPATCH}/instances/logs?instance_id=i%2F9")
    assert (status, one) == (200, {**item, "texts": {"console.log": "panic"}})
    assert (await site.ask("GET", f"{DISPATCH}/instances/logs?instance_id=i-8"))[0] == 404
    assert (await site.ask("GET", f"{DISPATCH}/instances/logs", token="other"))[0] == 403

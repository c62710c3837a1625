from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from lading.core.errors import Invalid
from lading.core.virtualmachine import Behavior
from lading.dispatch.cloud.fleet import CloudFleet
from lading.dispatch.cloud.management import managing, parse_address
from lading.dispatch.fleet import Assignment

from .scene import fleet_with_a_vm

ONE = "zzzzz-dz642-000000000000001"
DISPATCH = "/arvados/v1/dispatch"


class Site:
    """A fleet with one VM and one container there, and its interface."""

    def __init__(self, url: str, fleet: CloudFleet, session: aiohttp.ClientSession) -> None:
        self.url, self.fleet, self.session = url, fleet, session

    async def ask(self, method: str, path: str, *, token: str = "hush", **data: str) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.request(method, self.url + path, headers=headers, data=data or None) as answer:
            body: Any = await (answer.json() if "json" in answer.content_type else answer.text())
            return answer.status, body


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with fleet_with_a_vm() as (fleet, vms):
        await fleet.start(Assignment(uuid=ONE, worker="i-1", token="t"))
        async with managing(fleet, "127.0.0.1:0", "hush") as url, aiohttp.ClientSession() as session:
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
    assert answer["items"] == [
        {"container": {"uuid": ONE}, "instance_types": [], "scheduling_status": "running on i-1"}
    ]
    assert (await site.ask("GET", f"{DISPATCH}/container?container_uuid={ONE}"))[0] == 200
    assert (await site.ask("GET", f"{DISPATCH}/container?container_uuid=other"))[0] == 404
    assert (await site.ask("GET", f"{DISPATCH}/container"))[0] == 400


async def test_a_container_can_be_stopped(site: Site) -> None:
    assert (await site.ask("POST", f"{DISPATCH}/containers/kill", container_uuid="other"))[0] == 404
    assert (await site.ask("POST", f"{DISPATCH}/containers/kill"))[0] == 400
    assert (await site.ask("POST", f"{DISPATCH}/containers/kill", container_uuid=ONE, reason="why not"))[0] == 200
    while site.fleet.view().processes[ONE].alive:
        await site.fleet.changed()


async def test_instances_are_held_drained_used_again_and_removed(site: Site) -> None:
    (one,) = site.fleet.pool.machines.values()
    for act, behavior in (("hold", Behavior.HOLD), ("drain", Behavior.DRAIN), ("run", Behavior.RUN)):
        assert (await site.ask("POST", f"{DISPATCH}/instances/{act}", instance_id="i-1"))[0] == 200
        assert one.behavior is behavior
    assert (await site.ask("POST", f"{DISPATCH}/instances/hold", instance_id="i-9"))[0] == 404
    assert (await site.ask("POST", f"{DISPATCH}/instances/hold"))[0] == 400
    assert (await site.ask("POST", f"{DISPATCH}/instances/kill", instance_id="i-1", reason="it is odd"))[0] == 200
    assert one.why == "killed by an operator: it is odd"


async def test_metrics_are_those_of_the_fleet(site: Site) -> None:
    status, text = await site.ask("GET", "/metrics")
    assert status == 200
    assert 'arvados_dispatchcloud_instances_total{category="inuse",instance_type="type1"} 1.0' in text


async def test_an_interface_that_cannot_be_served_is_refused(site: Site) -> None:
    port = site.url.rpartition(":")[2]
    with pytest.raises(Invalid, match=r"ManagementAddress: '127.0.0.1:\d+' cannot be served: "):
        async with managing(site.fleet, f"127.0.0.1:{port}", "hush"):
            pass
    with pytest.raises(Invalid, match="ManagementToken: it is empty"):
        async with managing(site.fleet, "127.0.0.1:0", ""):
            pass
    with pytest.raises(Invalid, match="'here'; it must be HOST:PORT"):
        parse_address("here")

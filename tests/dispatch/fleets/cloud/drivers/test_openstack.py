from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lading.core.errors import Invalid, Unavailable
from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers import openstack
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    InstanceSpec,
    NoCapacity,
    QuotaReached,
    RateLimited,
)
from tests.cloud_services import CloudReply, FakeOpenStack
from tests.clouds import driving, running

TAG = "ArvadosInstanceSetID"
KIND = InstanceType(name="l", provider_type="large", resources=Resources(4, GIB), price=0.2)
SPEC = InstanceSpec(
    kind=KIND,
    tags={TAG: "one"},
    public_key="ssh-ed25519 AAAA",
    image=FakeOpenStack.image,
    user_data="#!/bin/sh\n",
)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[FakeOpenStack]:
    with running("openstack", tmp_path) as made:
        yield made


async def test_what_a_server_is_asked_for_with(cloud: FakeOpenStack, tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "SecurityGroups": ["ssh"],
        "AvailabilityZone": "az1",
        "Network": ["n1", "n2"],
    }
    async with driving(cloud, tmp_path, **more) as driver:
        made = await driver.create(replace(SPEC, kind=structs.replace(KIND, added=GIB)))
        again = await driver.create(SPEC)
    told = cloud.servers[made.id]
    assert base64.b64decode(told["user_data"]) == b"#!/bin/sh\n"
    assert told["flavorRef"] == "8"
    assert told["networks"] == [{"uuid": "n1"}, {"uuid": "n2"}]
    assert (told["security_groups"], told["availability_zone"]) == ([{"name": "ssh"}], "az1")
    assert told["block_device_mapping_v2"][1]["volume_size"] == 1
    assert cloud.servers[again.id]["key_name"] == told["key_name"]
    assert len(cloud.keys) == 1


async def test_application_credentials_do_too(cloud: FakeOpenStack, tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "ApplicationCredentialID": "a",
        "ApplicationCredentialSecret": cloud.secret,
    }
    async with driving(cloud, tmp_path, **more) as driver:
        assert await driver.list() == []


async def test_a_server_without_a_host_is_removed(cloud: FakeOpenStack, tmp_path: Path) -> None:
    failed = {"status": "ERROR", "fault": {"code": 500, "message": "No valid host was found."}}
    cloud.next.append(("GET", "/servers/server-", CloudReply(200, {"server": failed})))
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(NoCapacity, match="OpenStack: 500: No valid host was found"):
            await driver.create(SPEC)
    assert cloud.servers == {}


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (
            CloudReply(403, {"forbidden": {"code": 403, "message": "Quota exceeded for cores"}}),
            QuotaReached,
        ),
        (
            CloudReply(429, {"overLimit": {"code": 429, "message": "slow"}}, {"Retry-After": "9"}),
            RateLimited,
        ),
        (
            CloudReply(
                404, {"itemNotFound": {"code": 404, "message": "Network could not be found."}}
            ),
            Invalid,
        ),
        (CloudReply(503, None), Unavailable),
    ],
)
async def test_refusals(
    cloud: FakeOpenStack, tmp_path: Path, reply: CloudReply, kind: type[Exception]
) -> None:
    cloud.next.append(("POST", "/nova/servers", reply))
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(kind):
            await driver.create(SPEC)
    assert cloud.servers == {}


async def test_what_openstack_has_not_is_not_asked_for(
    cloud: FakeOpenStack, tmp_path: Path
) -> None:
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(NoCapacity, match="no preemptible servers"):
            await driver.create(replace(SPEC, kind=structs.replace(KIND, preemptible=True)))
        with pytest.raises(
            Invalid,
            match=r"InstanceTypes\.l\.ProviderType: 'huge'; OpenStack has the flavors large",
        ):
            await driver.create(replace(SPEC, kind=structs.replace(KIND, provider_type="huge")))
        with pytest.raises(Invalid, match="ResourceTags: a/b: 'c'; OpenStack has names of letters"):
            await driver.create(replace(SPEC, tags={"a/b": "c"}))
    assert cloud.servers == {}


async def test_lists_have_pages(cloud: FakeOpenStack, tmp_path: Path) -> None:
    async with driving(cloud, tmp_path) as driver:
        first = (await driver.create(SPEC)).id
        # Two whole pages, and a part of a third one.
        for number in range(1200):
            id = f"server-x{number:04}"
            cloud.servers[id] = {**cloud.servers[first], "id": id}
        assert {one.id for one in await driver.list()} == set(cloud.servers)
        cloud.servers[first]["OS-EXT-STS:task_state"] = "deleting"
        assert len(await driver.list()) == 1200
    assert openstack.group(KIND) == "large"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"AuthURL": "cloud"}, "AuthURL: 'cloud'; it must be the URL of Keystone"),
        ({"Username": ""}, "Username: ''; it must be a user's name, unless"),
        ({"Network": 5}, "Network: 5; it must be a text or a list of texts"),
        ({"Zone": "x"}, "unknown key Containers.CloudVMs.DriverParameters.Zone"),
    ],
)
def test_parameters_that_cannot_be_are_refused(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    told = FakeOpenStack().parameters | {"AuthURL": "http://keystone"} | changed
    with pytest.raises(Invalid, match=said):
        openstack.opening(DriverSite(parameters=told, tag=TAG, set_id="s", directory=tmp_path))


async def test_the_console_of_a_vm_is_read(cloud: FakeOpenStack, tmp_path: Path) -> None:
    async with driving(cloud, tmp_path) as driver:
        made = await driver.create(SPEC)
        cloud.next.append(("POST", "/action", CloudReply(200, {"output": "panic"})))
        assert await driver.console(made.id) == "panic"
        assert cloud.asked[-1].path.endswith("/action")
        assert await driver.console("gone") == ""

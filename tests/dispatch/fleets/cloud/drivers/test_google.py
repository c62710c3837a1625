from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lading.core.errors import Invalid
from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers import google
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    InstanceSpec,
    NoCapacity,
    QuotaReached,
    RateLimited,
)
from tests.cloud_services import CloudReply, FakeGoogle
from tests.clouds import driving, running

TAG = "ArvadosInstanceSetID"
KIND = InstanceType(name="n", provider_type="n2-standard-4", resources=Resources(4, GIB), price=0.2)
SPEC = InstanceSpec(
    kind=KIND,
    tags={TAG: "Zz-1", "ArvadosInstanceSecret": "abc", "Cost Centre": "R&D"},
    public_key="ssh-ed25519 AAAA",
    image=FakeGoogle.image,
    user_data="#!/bin/sh\n",
)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[FakeGoogle]:
    with running("google", tmp_path) as made:
        yield made


async def test_what_a_vm_is_asked_for_with(cloud: FakeGoogle, tmp_path: Path) -> None:
    spot = replace(SPEC, kind=structs.replace(KIND, preemptible=True, added=GIB))
    more: dict[str, Any] = {
        "Subnetwork": "s",
        "ExternalAddress": True,
        "DiskSizeGB": 20,
        "VMServiceAccount": "v@x",
    }
    async with driving(cloud, tmp_path, set_id="Zz-1", **more) as driver:
        made = await driver.create(spot)
    told = cloud.instances[made.id]
    items = {one["key"]: one["value"] for one in told["metadata"]["items"]}
    assert items["startup-script"] == "#!/bin/sh\n"
    assert items["ssh-keys"] == "crunch:ssh-ed25519 AAAA"
    assert told["scheduling"]["provisioningModel"] == "SPOT"
    assert told["scheduling"]["instanceTerminationAction"] == "DELETE"
    assert told["disks"][1]["initializeParams"]["diskSizeGb"] == "1"
    assert told["networkInterfaces"][0]["subnetwork"] == "s"
    assert told["serviceAccounts"][0]["email"] == "v@x"


async def test_labels_show_what_they_can_and_tags_keep_all(
    cloud: FakeGoogle, tmp_path: Path
) -> None:
    async with driving(cloud, tmp_path, set_id="Zz-1") as driver:
        made = await driver.create(SPEC)
        (one,) = await driver.list()
        assert one.tags == SPEC.tags
        assert cloud.instances[made.id]["labels"] == {
            "arvadosinstancesetid": "zz-1",
            "cost-centre": "r-d",
        }
    async with driving(cloud, tmp_path, set_id="zz-1") as driver:
        assert await driver.list() == []
    assert google.label_name("1st") == "x1st"


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ({"code": "QUOTA_EXCEEDED", "message": "Quota 'CPUS' exceeded."}, QuotaReached),
        ({"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no room"}, NoCapacity),
    ],
)
async def test_an_order_that_fails_later_leaves_nothing(
    cloud: FakeGoogle, tmp_path: Path, failure: dict[str, str], kind: type[Exception]
) -> None:
    cloud.late_failure = failure
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(kind):
            await driver.create(SPEC)
    assert cloud.instances == {}


async def test_refusals_at_once(cloud: FakeGoogle, tmp_path: Path) -> None:
    said = {
        "errors": [{"reason": "rateLimitExceeded", "message": "Rate Limit Exceeded"}],
        "code": 403,
    }
    cloud.next.append(("POST", "instances", CloudReply(403, {"error": said})))
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(RateLimited, match="Google: rateLimitExceeded: Rate Limit Exceeded"):
            await driver.create(SPEC)
        with pytest.raises(Invalid, match="The resource for the image was not found; check"):
            await driver.create(replace(SPEC, image="projects/none"))


async def test_vms_with_tags_that_are_none_are_not_ours(cloud: FakeGoogle, tmp_path: Path) -> None:
    async with driving(cloud, tmp_path, set_id="Zz-1") as driver:
        made = await driver.create(SPEC)
        cloud.instances[made.id]["metadata"]["items"] = [{"key": "lading-tags", "value": "no JSON"}]
        assert await driver.list() == []
        await driver.tag("nowhere", {TAG: "Zz-1"})


def test_types_of_a_family_share_a_group() -> None:
    assert google.group(KIND) == "n2"
    assert google.group(structs.replace(KIND, preemptible=True)) == "n2-spot"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"Zone": ""}, "Zone: ''; it must be the name of a zone"),
        ({"ExternalAddress": "yes"}, "ExternalAddress: 'yes'; it must be true or false"),
        ({"DiskSizeGB": -5}, "DiskSizeGB: -5; it must be a number, 0 for that of the image"),
        ({"Region": "x"}, "unknown key Containers.CloudVMs.DriverParameters.Region"),
    ],
)
def test_parameters_that_cannot_be_are_refused(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    told = FakeGoogle().parameters | {"KeyFile": "key.json"} | changed
    with pytest.raises(Invalid, match=said):
        google.opening(DriverSite(parameters=told, tag=TAG, set_id="s", directory=tmp_path))


async def test_the_console_of_a_vm_is_read(cloud: FakeGoogle, tmp_path: Path) -> None:
    async with driving(cloud, tmp_path) as driver:
        made = await driver.create(SPEC)
        cloud.next.append(("GET", "serialPort", CloudReply(200, {"contents": "panic"})))
        assert await driver.console(made.id) == "panic"
        assert cloud.asked[-1].path.endswith("serialPort")
        assert await driver.console("gone") == ""

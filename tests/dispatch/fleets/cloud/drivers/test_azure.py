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
from lading.dispatch.fleets.cloud.drivers import azure
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    InstanceSpec,
    NoCapacity,
    RateLimited,
)
from tests.cloud_services import CloudReply, FakeAzure
from tests.clouds import driving, running

TAG = "ArvadosInstanceSetID"
KIND = InstanceType(
    name="d", provider_type="Standard_D4s_v5", resources=Resources(4, GIB), price=0.25
)
SPEC = InstanceSpec(
    kind=KIND,
    tags={TAG: "one"},
    public_key="ssh-rsa AAAA",
    image=FakeAzure.image,
    user_data="#!/bin/sh\necho hello\n",
)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[FakeAzure]:
    with running("azure", tmp_path) as made:
        yield made


async def test_what_a_vm_is_asked_for_with(cloud: FakeAzure, tmp_path: Path) -> None:
    spot = replace(SPEC, kind=structs.replace(KIND, preemptible=True, added=5 * GIB // 2))
    async with driving(cloud, tmp_path) as driver:
        made = await driver.create(spot)
        assert driver.preemption == "azure"
    told = cloud.machines[made.id]["properties"]
    assert base64.b64decode(told["osProfile"]["customData"]).decode() == SPEC.user_data
    assert (told["priority"], told["evictionPolicy"], told["billingProfile"]) == (
        "Spot",
        "Delete",
        {"maxPrice": 0.25},
    )
    assert told["storageProfile"]["dataDisks"][0]["diskSizeGB"] == 3
    assert told["storageProfile"]["osDisk"]["deleteOption"] == "Delete"
    assert cloud.interfaces[made.id]["tags"][TAG] == "one"


async def test_the_interface_goes_with_its_vm(cloud: FakeAzure, tmp_path: Path) -> None:
    async with driving(cloud, tmp_path) as driver:
        made = await driver.create(SPEC)
        assert list(cloud.interfaces) == [made.id]
        await driver.destroy(made.id)
    assert cloud.interfaces == {}


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (
            CloudReply(409, {"error": {"code": "SkuNotAvailable", "message": "none now"}}),
            NoCapacity,
        ),
        (
            CloudReply(429, {"error": {"code": "x", "message": "y"}}, {"Retry-After": "7"}),
            RateLimited,
        ),
        (
            CloudReply(404, {"error": {"code": "ResourceNotFound", "message": "no such image"}}),
            Invalid,
        ),
    ],
)
async def test_the_interface_goes_when_the_vm_is_refused(
    cloud: FakeAzure, tmp_path: Path, reply: CloudReply, kind: type[Exception]
) -> None:
    cloud.next.append(("PUT", "virtualMachines", reply))
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(kind):
            await driver.create(SPEC)
    assert cloud.interfaces == {}


async def test_an_order_that_fails_later_leaves_nothing(cloud: FakeAzure, tmp_path: Path) -> None:
    cloud.late_failure = {"code": "AllocationFailed", "message": "no room"}
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(NoCapacity, match="Azure: AllocationFailed: no room"):
            await driver.create(SPEC)
    assert (cloud.machines, cloud.interfaces) == ({}, {})


async def test_an_interface_that_could_not_be_removed_goes_at_a_list(
    cloud: FakeAzure, tmp_path: Path
) -> None:
    fault = CloudReply(409, {"error": {"code": "SkuNotAvailable", "message": "none now"}})
    reserved = CloudReply(
        400, {"error": {"code": "NicReservedForAnotherVm", "message": "for 180 seconds"}}
    )
    cloud.next += [("PUT", "virtualMachines", fault), ("DELETE", "networkInterfaces", reserved)]
    foreign: dict[str, Any] = {
        "name": "foreign",
        "tags": {TAG: "other", "created-at": "1"},
        "properties": {},
    }
    cloud.interfaces["foreign"] = foreign
    async with driving(cloud, tmp_path) as driver:
        with pytest.raises(NoCapacity):
            await driver.create(SPEC)
        assert len(cloud.interfaces) == 2
        cloud.next.append(("DELETE", "networkInterfaces", reserved))
        await driver.list()
        assert len(cloud.interfaces) == 2
        await driver.list()
    assert list(cloud.interfaces) == ["foreign"]


@pytest.mark.parametrize(
    ("image", "changed", "found"),
    [
        ("/subscriptions/x/images/y", {}, {"id": "/subscriptions/x/images/y"}),
        (
            "mine",
            {},
            {"id": "/subscriptions/sub/resourceGroups/vms/providers/Microsoft.Compute/images/mine"},
        ),
        (
            "mine",
            {"SharedImageGalleryName": "g", "ImageResourceGroup": "r"},
            {
                "id": "/subscriptions/sub/resourceGroups/r/providers/Microsoft.Compute"
                "/galleries/g/images/mine/versions/latest"
            },
        ),
    ],
)
async def test_images_have_names_of_three_kinds(
    cloud: FakeAzure, tmp_path: Path, image: str, changed: dict[str, Any], found: dict[str, str]
) -> None:
    async with driving(cloud, tmp_path, **changed) as driver:
        with pytest.raises(Invalid, match="Azure: PlatformImageNotFound"):
            await driver.create(replace(SPEC, image=image))
    asked = [
        one.body for one in cloud.asked if one.method == "PUT" and "virtualMachines" in one.path
    ]
    assert asked[-1]["properties"]["storageProfile"]["imageReference"] == found


async def test_without_a_key_and_with_tags_that_azure_has_not_nothing_is_asked_for(
    cloud: FakeAzure, tmp_path: Path
) -> None:
    async with driving(cloud, tmp_path, SecurityGroup="sg") as driver:
        with pytest.raises(
            Invalid, match="needs a public key; leave Containers.CloudVMs.DeployPublicKey"
        ):
            await driver.create(replace(SPEC, public_key=""))
        with pytest.raises(Invalid, match=r"ResourceTags: a\?: 'b'; Azure has names to 512"):
            await driver.create(replace(SPEC, tags={"a?": "b"}))
    assert not any(one.method == "PUT" for one in cloud.asked)


@pytest.mark.parametrize(
    ("size", "spot", "family"),
    [
        ("Standard_D4s_v5", False, "Standard_Ds_v5"),
        ("Standard_D64s_v5", True, "Standard_Ds_v5-spot"),
        ("Standard_NC24ads_A100_v4", False, "Standard_NCads_A100_v4"),
        ("Standard_M8-2ms", False, "Standard_Mms"),
    ],
)
def test_sizes_of_a_family_share_a_group(size: str, spot: bool, family: str) -> None:
    assert azure.group(structs.replace(KIND, provider_type=size, preemptible=spot)) == family


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"SubscriptionID": ""}, "SubscriptionID: ''; it must be the id of a subscription"),
        (
            {"CloudEnvironment": "Mars"},
            "CloudEnvironment: 'Mars'; it must be one of AzurePublicCloud",
        ),
        (
            {"DeleteDanglingResourcesAfter": -1},
            "DeleteDanglingResourcesAfter: -1; it must be a number of seconds",
        ),
        (
            {"Zone": "1"},
            "unknown key Containers.CloudVMs.DriverParameters.Zone; known here: AdminUsername",
        ),
    ],
)
def test_parameters_that_cannot_be_are_refused(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    site = DriverSite(
        parameters=FakeAzure().parameters | changed, tag=TAG, set_id="s", directory=tmp_path
    )
    with pytest.raises(Invalid, match=said):
        azure.opening(site)


async def test_the_console_of_a_vm_is_read_from_a_blob(cloud: FakeAzure, tmp_path: Path) -> None:
    way = "https://blobs.example/console?signature"
    cloud.next.append(
        ("POST", "retrieveBootDiagnosticsData", CloudReply(200, {"serialConsoleLogBlobUri": way}))
    )
    async with driving(cloud, tmp_path) as driver:
        made = await driver.create(SPEC)
        diagnostics = cloud.machines[made.id]["properties"]["diagnosticsProfile"]
        assert diagnostics == {"bootDiagnostics": {"enabled": True}}
        # No host has this name. The message has no address: whoever knows it may read the blob.
        with pytest.raises(Unavailable, match="^Azure: the console's log: ConnectionError$"):
            await driver.console(made.id)
        assert await driver.console("gone") == ""

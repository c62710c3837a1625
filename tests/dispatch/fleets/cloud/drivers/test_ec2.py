from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.session import get_session
from botocore.exceptions import ClientError, EndpointConnectionError
from msgspec import structs

from lading.core.errors import Invalid, Unavailable
from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers import ec2, ec2_settings
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    InstanceSpec,
    NoCapacity,
    QuotaReached,
    RateLimited,
)
from lading.dispatch.fleets.cloud.drivers.ec2 import Ec2Driver, refusal
from lading.dispatch.fleets.cloud.drivers.ec2_settings import Ec2Settings
from tests.ec2 import ec2_endpoint

KIND = InstanceType(name="small", provider_type="m5.large", resources=Resources(2, GIB), price=0.25)
SETTINGS = Ec2Settings(
    region="r", tag="T", set_id="s", subnets=("one", "two"), quota_groups=ec2_settings.QUOTA_GROUPS
)


def spec(kind: InstanceType = KIND, key: str = "") -> InstanceSpec:
    return InstanceSpec(
        kind=kind, tags={"T": "s"}, public_key=key, image="ami", user_data="#!/bin/sh"
    )


class Client:
    """Answers in turn; remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[dict[str, Any]]()

    def __getattr__(self, name: str) -> Any:
        async def call(**arguments: Any) -> Any:
            self.asked.append({"call": name, **arguments, "subnet": _subnet(arguments)})
            answer = self.answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return call


def _subnet(arguments: dict[str, Any]) -> str:
    networks = arguments.get("NetworkInterfaces") or [{}]
    return str(networks[0].get("SubnetId", ""))


def fault(code: str, message: str = "words") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "RunInstances")


MADE = {
    "Instances": [{"InstanceId": "i-1", "InstanceType": "m5.large", "PrivateIpAddress": "10.0.0.1"}]
}


async def test_the_next_subnet_is_tried_and_remembered() -> None:
    client = Client(fault("InsufficientFreeAddressesInSubnet"), MADE, MADE)
    driver = Ec2Driver(SETTINGS, client)
    assert (await driver.create(spec())).id == "i-1"
    await driver.create(spec())
    assert [one["subnet"] for one in client.asked] == ["one", "two", "two"]


async def test_of_all_refusals_that_for_capacity_is_told() -> None:
    driver = Ec2Driver(
        SETTINGS, Client(fault("InsufficientInstanceCapacity"), fault("InsufficientVolumeCapacity"))
    )
    with pytest.raises(NoCapacity, match="EC2: InsufficientInstanceCapacity: words"):
        await driver.create(spec())


async def test_no_other_subnet_is_tried_when_calls_are_too_many() -> None:
    client = Client(fault("RequestLimitExceeded"))
    with pytest.raises(RateLimited):
        await Ec2Driver(SETTINGS, client).create(spec())
    assert len(client.asked) == 1


async def test_what_an_instance_is_asked_for_with() -> None:
    client = Client(MADE)
    settings = replace(SETTINGS, subnets=(), groups=("sg-1",), profile="role")
    kind = structs.replace(KIND, added=5 * GIB // 2, preemptible=True)
    await Ec2Driver(settings, client).create(spec(kind))
    (asked,) = client.asked
    assert asked["MetadataOptions"] == {"HttpTokens": "required", "HttpEndpoint": "enabled"}
    assert asked["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert asked["NetworkInterfaces"][0]["Groups"] == ["sg-1"]
    assert asked["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is False
    assert asked["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 3
    assert asked["InstanceMarketOptions"]["SpotOptions"]["MaxPrice"] == "0.25"
    assert asked["IamInstanceProfile"] == {"Name": "role"}
    assert "KeyName" not in asked


async def test_volumes_are_encrypted_sized_and_tagged() -> None:
    client = Client(MADE)
    settings = replace(
        SETTINGS, subnets=(), has_public_address=True, is_encrypted=True, kms_key="alias/k",
        root_size=20 * GIB, tags_volumes=True,
    )  # fmt: skip
    await Ec2Driver(settings, client).create(spec(structs.replace(KIND, added=GIB)))
    (asked,) = client.asked
    assert asked["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is True
    root, scratch = asked["BlockDeviceMappings"]
    assert (root["DeviceName"], root["Ebs"]["VolumeSize"]) == ("/dev/xvda", 20)
    assert (scratch["DeviceName"], scratch["Ebs"]["VolumeSize"]) == ("/dev/xvdt", 1)
    for one in (root, scratch):
        assert (one["Ebs"]["Encrypted"], one["Ebs"]["KmsKeyId"]) == (True, "alias/k")
    assert [one["ResourceType"] for one in asked["TagSpecifications"]] == ["instance", "volume"]


async def test_an_encrypted_root_disk_keeps_the_size_of_its_image() -> None:
    client = Client(MADE)
    await Ec2Driver(replace(SETTINGS, subnets=(), is_encrypted=True), client).create(spec())
    (root,) = client.asked[0]["BlockDeviceMappings"]
    assert "VolumeSize" not in root["Ebs"]
    assert "KmsKeyId" not in root["Ebs"]


async def test_a_key_pair_is_imported_once() -> None:
    client = Client(fault("InvalidKeyPair.Duplicate"), MADE, MADE)
    driver = Ec2Driver(replace(SETTINGS, subnets=()), client)
    for _ in range(2):
        await driver.create(spec(key="ssh-ed25519 AAAA comment"))
    assert [one["call"] for one in client.asked] == [
        "import_key_pair",
        "run_instances",
        "run_instances",
    ]
    assert client.asked[1]["KeyName"] == client.asked[0]["KeyName"]
    with pytest.raises(Invalid):
        await Ec2Driver(SETTINGS, Client(fault("UnauthorizedOperation"))).create(
            spec(key="ssh-ed25519 AAAA")
        )
    with pytest.raises(Unavailable, match="Strange"):
        await Ec2Driver(SETTINGS, Client(fault("Strange"))).create(spec(key="ssh-ed25519 AAAA"))


async def test_lists_have_pages_and_what_is_gone_may_be_destroyed() -> None:
    page = {"Reservations": [{"Instances": MADE["Instances"]}]}
    client = Client(
        {**page, "NextToken": "n"}, page, fault("InvalidInstanceID.NotFound"), fault("Other")
    )
    driver = Ec2Driver(replace(SETTINGS, subnets=()), client)
    assert len(await driver.list()) == 2
    assert client.asked[1]["NextToken"] == "n"
    await driver.destroy("i-1")
    with pytest.raises(Unavailable):
        await driver.destroy("i-1")


async def test_the_console_of_what_is_gone_is_empty() -> None:
    client = Client({"Output": "panic"}, {}, fault("InvalidInstanceID.NotFound"), fault("Other"))
    driver = Ec2Driver(SETTINGS, client)
    assert [await driver.console("i-1") for _ in range(3)] == ["panic", "", ""]
    with pytest.raises(Unavailable):
        await driver.console("i-1")


async def test_the_prices_of_spot_instances_have_pages_and_the_volume_in_them() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    one = {"Timestamp": at, "SpotPrice": "0.031", "AvailabilityZone": "z"}
    two = {"Timestamp": at + timedelta(hours=1), "SpotPrice": "0.04", "AvailabilityZone": "z"}
    client = Client({"SpotPriceHistory": [one], "NextToken": "n"}, {"SpotPriceHistory": [two]}, {})
    driver = Ec2Driver(replace(SETTINGS, volume_price=0.72), client)
    found = await driver.price_history(structs.replace(KIND, added=GIB), "z", since=at)
    assert [(price.start, price.amount) for price in found] == [
        (at, 0.032),
        (two["Timestamp"], 0.041),
    ]
    assert client.asked[0]["AvailabilityZone"] == "z"
    assert client.asked[1]["NextToken"] == "n"
    assert await driver.price_history(KIND, "", since=at) == []
    assert "AvailabilityZone" not in client.asked[2]


async def test_an_ec2_that_is_not_there_is_said() -> None:
    away = EndpointConnectionError(endpoint_url="http://nowhere")
    driver = Ec2Driver(SETTINGS, Client(away, away))
    with pytest.raises(Unavailable, match="EC2 cannot be reached: .*nowhere"):
        await driver.list()


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("InstanceLimitExceeded", "", QuotaReached),
        ("MaxSpotInstanceCountExceeded", "", QuotaReached),
        ("VcpuLimitExceeded", "", NoCapacity),
        ("Unsupported", "Your requested instance type (x) is not supported", NoCapacity),
        ("Unsupported", "something else", Unavailable),
        ("RequestLimitExceeded", "", RateLimited),
        ("InvalidAMIID.NotFound", "", Invalid),
    ],
)
def test_each_code_has_its_class(code: str, message: str, kind: type[Exception]) -> None:
    assert type(refusal(code, message)) is kind or kind is Unavailable


@pytest.mark.parametrize(
    ("name", "spot", "group"),
    [("m5.large", False, "standard"), ("vt1.3xlarge", False, "g"), ("p5.48xlarge", True, "p5-spot"),
     ("g4dn.xlarge", False, "g"), ("inf1.xlarge", False, "standard")],
)  # fmt: skip
def test_types_are_in_quota_groups(name: str, spot: bool, group: str) -> None:
    kind = structs.replace(KIND, provider_type=name, preemptible=spot)
    assert Ec2Driver(SETTINGS, Client()).group(kind) == group


async def test_a_service_gives_volumes_as_asked(tmp_path: Path) -> None:
    """The same by moto's EC2, which checks the form of the call."""
    parameters = {
        "Region": "us-east-1", "AccessKeyID": "k", "SecretAccessKey": "s",
        "Endpoint": ec2_endpoint(), "EBSEncrypted": True, "RootVolumeSize": "20GiB",
        "TagVolumes": True,
    }  # fmt: skip
    where = DriverSite(parameters=parameters, tag="T", set_id="vols", directory=tmp_path)
    look = get_session().create_client(
        "ec2", region_name="us-east-1", endpoint_url=ec2_endpoint(),
        aws_access_key_id="k", aws_secret_access_key="s",
    )  # fmt: skip
    async with ec2.open_ec2(where) as driver, look as cloud:
        image = (await cloud.describe_images(Owners=["amazon"]))["Images"][0]["ImageId"]
        wanted = replace(
            spec(structs.replace(KIND, added=3 * GIB)), image=image, tags={"T": "vols"}
        )
        made = await driver.create(wanted)
        held = {"Name": "attachment.instance-id", "Values": [made.id]}
        volumes = (await cloud.describe_volumes(Filters=[held]))["Volumes"]
        sizes = {one["Attachments"][0]["Device"]: one["Size"] for one in volumes}
        assert sizes == {"/dev/xvda": 20, "/dev/xvdt": 3}
        assert all(one["Encrypted"] for one in volumes)
        assert [one["Tags"] for one in volumes] == [[{"Key": "T", "Value": "vols"}]] * 2
        await driver.destroy(made.id)


async def test_a_zone_to_avoid_is_tried_last() -> None:
    subnets = [{"SubnetId": "one", "AvailabilityZone": "a"}]
    subnets += [{"SubnetId": "two", "AvailabilityZone": "b"}]
    full = fault("InsufficientInstanceCapacity")
    client = Client({"Subnets": subnets}, {"Reservations": []}, MADE, MADE, full, MADE)
    driver = Ec2Driver(SETTINGS, client)
    await driver.list()
    assert driver.zones() == ("a", "b")
    await driver.create(spec())
    for _ in range(2):
        await driver.create(replace(spec(), avoided_zones=frozenset("a")))
    assert [one["subnet"] for one in client.asked[2:]] == ["one", "two", "two", "one"]


async def test_without_the_right_to_see_subnets_no_zone_is_known() -> None:
    client = Client(fault("UnauthorizedOperation"), {"Reservations": []}, {"Reservations": []})
    driver = Ec2Driver(SETTINGS, client)
    assert await driver.list() == await driver.list() == []
    assert driver.zones() == ()

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.dispatch.fleets.cloud.drivers import ec2_settings
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [("AssociatePublicIPAddress", "yes"), ("EBSEncrypted", 1), ("TagVolumes", "no"),
     ("RootVolumeSize", True), ("RootVolumeSize", "large"), ("RootVolumeSize", -1),
     ("EBSKMSKeyID", "alias/k")],
)  # fmt: skip
def test_what_volumes_cannot_be(name: str, value: object, tmp_path: Path) -> None:
    parameters = {"Region": "r", name: value}
    with pytest.raises(Invalid, match=f"DriverParameters.{name}: "):
        ec2_settings.read(
            DriverSite(parameters=parameters, tag="T", set_id="s", directory=tmp_path)
        )


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, r"DriverParameters\.Region: None; it must be the name of a region"),
        (
            {"Region": "r", "SubnetID": 5},
            r"DriverParameters\.SubnetID: 5; it must be a name or a list of names",
        ),
        ({"Region": "r", "InstanceTypeQuotaGroups": 5}, r"QuotaGroups: 5; it must be a mapping"),
        (
            {"Region": "r", "SpotPriceUpdateInterval": "5s"},
            r"UpdateInterval: '5s'; it must be a duration of a minute",
        ),
        (
            {"Region": "r", "SpotPriceUpdateInterval": "soon"},
            r"UpdateInterval: 'soon'; it must be a duration",
        ),
        ({"Region": "r", "EBSPrice": -1}, r"EBSPrice: -1; it must be dollars for a GiB and month"),
        (
            {"Region": "r", "Zone": "z"},
            r"unknown key Containers\.CloudVMs\.DriverParameters\.Zone; known here: Access",
        ),
    ],
)
def test_parameters_that_cannot_be_are_refused(
    tmp_path: Path, parameters: dict[str, object], said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        ec2_settings.read(
            DriverSite(parameters=parameters, tag="T", set_id="s", directory=tmp_path)
        )


def test_parameters_are_read(tmp_path: Path) -> None:
    told = {
        "Region": "r",
        "SubnetID": ["a", "b"],
        "SecurityGroupIDs": {"sg-1": {}},
        "AdminUsername": "me",
    }
    found = ec2_settings.read(DriverSite(parameters=told, tag="T", set_id="s", directory=tmp_path))
    assert (found.price_interval, found.volume_price) == (86400, 0.1)
    assert (found.subnets, found.groups, found.user) == (("a", "b"), ("sg-1",), "me")

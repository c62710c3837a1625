"""The parameters of the driver for EC2, from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lading.core.errors import Invalid
from lading.core.quantities import parse_duration, parse_size
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    Parameters,
    bad_parameter,
    refuse_unknown,
    text,
)

PARAMETERS = (
    "Region", "AccessKeyID", "SecretAccessKey", "SubnetID", "SecurityGroupIDs", "EBSVolumeType",
    "IAMInstanceProfile", "AdminUsername", "InstanceTypeQuotaGroups", "SpotPriceUpdateInterval",
    "EBSPrice", "Endpoint", "AssociatePublicIPAddress", "EBSEncrypted", "EBSKMSKeyID",
    "RootVolumeSize", "RootDeviceName", "TagVolumes",
)  # fmt: skip
QUOTA_GROUPS = dict.fromkeys("acdhimrtz", "standard") | {"vt": "g", "p5": "p5"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Settings:
    """The parameters, read."""

    region: str
    tag: str
    set_id: str
    subnets: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    volume_type: str = "gp2"
    profile: str = ""
    user: str = "crunch"
    quota_groups: Mapping[str, str] = field(default_factory=dict)
    # Seconds between two reads of the history of spot prices; AWS changes them gradually.
    price_interval: float = 86400.0
    volume_price: float = 0.1
    has_public_address: bool = False
    is_encrypted: bool = False
    kms_key: str = ""
    root_size: int = 0
    """Bytes; 0: that of the image."""
    root_device: str = "/dev/xvda"
    tags_volumes: bool = False


def read(site: DriverSite) -> Ec2Settings:
    """The parameters of the configuration. Raises Invalid."""
    given = site.parameters
    refuse_unknown(given, PARAMETERS)
    groups = given.get("InstanceTypeQuotaGroups") or {}
    if not isinstance(groups, Mapping):
        raise bad_parameter(
            "InstanceTypeQuotaGroups", groups, "a mapping from the beginning of a type to a group"
        )
    return Ec2Settings(
        region=text(given, "Region", allowed="the name of a region, such as us-east-1"),
        tag=site.tag,
        set_id=site.set_id,
        subnets=_names(given, "SubnetID"),
        groups=_names(given, "SecurityGroupIDs"),
        volume_type=text(given, "EBSVolumeType", "gp2"),
        profile=text(given, "IAMInstanceProfile", ""),
        user=text(given, "AdminUsername", "crunch"),
        price_interval=_interval(given),
        volume_price=_volume_price(given),
        has_public_address=_choice(given, "AssociatePublicIPAddress"),
        is_encrypted=_is_encrypted(given),
        kms_key=text(given, "EBSKMSKeyID", ""),
        root_size=_root_size(given),
        root_device=text(given, "RootDeviceName", "/dev/xvda"),
        tags_volumes=_choice(given, "TagVolumes"),
        quota_groups=QUOTA_GROUPS | {str(name): str(group) for name, group in groups.items()},
    )


def _interval(given: Parameters) -> float:
    value, allowed = (
        given.get("SpotPriceUpdateInterval", 86400),
        "a duration of a minute or more, such as 24h",
    )
    try:
        found = parse_duration(value) if isinstance(value, str | float | int) else 0.0
    except Invalid as error:
        raise bad_parameter("SpotPriceUpdateInterval", value, allowed) from error
    if found < 60:
        raise bad_parameter("SpotPriceUpdateInterval", value, allowed)
    return found


def _volume_price(given: Parameters) -> float:
    value = given.get("EBSPrice", 0.1)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise bad_parameter("EBSPrice", value, "dollars for a GiB and month, 0 or more")
    return float(value)


def _choice(given: Parameters, name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise bad_parameter(name, value, "true or false")
    return value


def _is_encrypted(given: Parameters) -> bool:
    found = _choice(given, "EBSEncrypted")
    if given.get("EBSKMSKeyID") and not found:
        raise bad_parameter("EBSKMSKeyID", given["EBSKMSKeyID"], "left out without EBSEncrypted")
    return found


def _root_size(given: Parameters) -> int:
    value, allowed = given.get("RootVolumeSize", 0), "a size, such as 20GiB"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise bad_parameter("RootVolumeSize", value, allowed)
    try:
        found = parse_size(value)
    except Invalid as error:
        raise bad_parameter("RootVolumeSize", value, allowed) from error
    if found < 0:
        raise bad_parameter("RootVolumeSize", value, allowed)
    return found


def _names(given: Parameters, name: str) -> tuple[str, ...]:
    value = given.get(name)
    if value is None or value == "":
        return ()
    names = (
        (value,)
        if isinstance(value, str)
        else tuple(value)
        if isinstance(value, list | Mapping)
        else (None,)
    )
    if not all(isinstance(one, str) and one for one in names):
        raise bad_parameter(name, value, "a name or a list of names")
    return names

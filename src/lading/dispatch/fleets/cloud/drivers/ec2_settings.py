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
    parameters = site.parameters
    refuse_unknown(parameters, PARAMETERS)
    groups = parameters.get("InstanceTypeQuotaGroups") or {}
    if not isinstance(groups, Mapping):
        raise bad_parameter(
            "InstanceTypeQuotaGroups", groups, "a mapping from the beginning of a type to a group"
        )
    return Ec2Settings(
        region=text(parameters, "Region", allowed="the name of a region, such as us-east-1"),
        tag=site.tag,
        set_id=site.set_id,
        subnets=_names(parameters, "SubnetID"),
        groups=_names(parameters, "SecurityGroupIDs"),
        volume_type=text(parameters, "EBSVolumeType", "gp2"),
        profile=text(parameters, "IAMInstanceProfile", ""),
        user=text(parameters, "AdminUsername", "crunch"),
        price_interval=_interval(parameters),
        volume_price=_volume_price(parameters),
        has_public_address=_choice(parameters, "AssociatePublicIPAddress"),
        is_encrypted=_is_encrypted(parameters),
        kms_key=text(parameters, "EBSKMSKeyID", ""),
        root_size=_root_size(parameters),
        root_device=text(parameters, "RootDeviceName", "/dev/xvda"),
        tags_volumes=_choice(parameters, "TagVolumes"),
        quota_groups=QUOTA_GROUPS | {str(name): str(group) for name, group in groups.items()},
    )


def _interval(parameters: Parameters) -> float:
    value, allowed = (
        parameters.get("SpotPriceUpdateInterval", 86400),
        "a duration of a minute or more, such as 24h",
    )
    try:
        interval = parse_duration(value) if isinstance(value, str | float | int) else 0.0
    except Invalid as error:
        raise bad_parameter("SpotPriceUpdateInterval", value, allowed) from error
    if interval < 60:
        raise bad_parameter("SpotPriceUpdateInterval", value, allowed)
    return interval


def _volume_price(parameters: Parameters) -> float:
    value = parameters.get("EBSPrice", 0.1)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise bad_parameter("EBSPrice", value, "dollars for a GiB and month, 0 or more")
    return float(value)


def _choice(parameters: Parameters, name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise bad_parameter(name, value, "true or false")
    return value


def _is_encrypted(parameters: Parameters) -> bool:
    is_encrypted = _choice(parameters, "EBSEncrypted")
    if parameters.get("EBSKMSKeyID") and not is_encrypted:
        raise bad_parameter(
            "EBSKMSKeyID", parameters["EBSKMSKeyID"], "left out without EBSEncrypted"
        )
    return is_encrypted


def _root_size(parameters: Parameters) -> int:
    value, allowed = parameters.get("RootVolumeSize", 0), "a size, such as 20GiB"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise bad_parameter("RootVolumeSize", value, allowed)
    try:
        size = parse_size(value)
    except Invalid as error:
        raise bad_parameter("RootVolumeSize", value, allowed) from error
    if size < 0:
        raise bad_parameter("RootVolumeSize", value, allowed)
    return size


def _names(parameters: Parameters, name: str) -> tuple[str, ...]:
    value = parameters.get(name)
    if value is None or value == "":
        return ()
    names = (
        (value,)
        if isinstance(value, str)
        else tuple(value)
        if isinstance(value, list | Mapping)
        else (None,)
    )
    if not all(isinstance(listed_name, str) and listed_name for listed_name in names):
        raise bad_parameter(name, value, "a name or a list of names")
    return names

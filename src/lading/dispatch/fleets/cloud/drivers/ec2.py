"""EC2 and compatible services: one VM a call, in a subnet that has room.

- VMs have no public address unless `AssociatePublicIPAddress` is set, are terminated when they shut
  themselves down, and have version 2 of the metadata service only. The dispatcher connects to their
  private address in any case.
- The key pair is imported once, under a name with its fingerprint.
- Subnets are tried in turn: after a refusal that may be due to a subnet, the next one.
- `AddedScratch` is a further EBS volume, `/dev/xvdt`. Preemptible VMs are one-time spot instances,
  at most at the price of their type.
- `EBSEncrypted` encrypts all volumes of a VM, with `EBSKMSKeyID` or the account's own key.
  `RootVolumeSize` and encryption concern the root disk by its name in the image, `RootDeviceName`.

Parameters: Region, AccessKeyID and SecretAccessKey (else those of the machine's role), SubnetID (a
name, or a list), SecurityGroupIDs (names; a list, or the keys of a mapping), EBSVolumeType,
IAMInstanceProfile, AdminUsername, InstanceTypeQuotaGroups, SpotPriceUpdateInterval (24h), EBSPrice
(dollars for a GiB and month, 0.1), Endpoint (of another service than Amazon's),
AssociatePublicIPAddress (false), EBSEncrypted (false), EBSKMSKeyID, RootVolumeSize (that of the
image), RootDeviceName (/dev/xvda), TagVolumes (false: volumes get no tags of their VM).

Source: docs/spec/cloud, section Drivers.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import math
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any

from lading.core.errors import Invalid, LadingError, Unavailable
from lading.core.resources import GIB, Price
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    Instance,
    InstanceSpec,
    NoCapacity,
    QuotaReached,
    RateLimited,
    text,
)
from lading.dispatch.fleets.cloud.drivers.ec2_settings import Ec2Settings, read
from lading.dispatch.fleets.cloud.metrics import SubnetFigures
from lading.process.telemetry import event

_QUOTA = {
    "InstanceLimitExceeded", "InsufficientAddressCapacity", "InsufficientFreeAddressesInSubnet",
    "InsufficientVolumeCapacity", "MaxSpotInstanceCountExceeded",
}  # fmt: skip
_CAPACITY = {
    "InsufficientInstanceCapacity",
    "VcpuLimitExceeded",
    "SpotMaxPriceTooLow",
    "UnfulfillableCapacity",
}
_THROTTLE = {
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_WRONG = {
    "AuthFailure", "UnauthorizedOperation", "InvalidClientTokenId", "SignatureDoesNotMatch",
    "InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidSubnetID.NotFound",
    "InvalidGroup.NotFound", "InvalidParameterValue", "InvalidKeyPair.NotFound", "OptInRequired",
}  # fmt: skip
# Volume prices are for a month; AWS counts 30 days.
_logger = logging.getLogger("lading.dispatch.fleets.cloud")
_HOURS_OF_MONTH = 720
_LIVE = ("pending", "running", "stopping", "stopped")


class Ec2Driver:
    """Implements `Driver`, `Priced`, `Subnetted` and `Zoned`. `client` is aiobotocore's."""

    preemption = "ec2"

    def __init__(self, settings: Ec2Settings, client: Any) -> None:
        self.price_interval = settings.price_interval
        self._settings = settings
        self._client = client
        self._subnet = 0
        self._starts: Counter[tuple[str, bool]] = Counter()
        self._by_subnet: Counter[str] = Counter()
        self._keys: dict[str, str] = {}
        self._zones: dict[str, str] = {}
        self._asked_for_zones = False
        self._alone = asyncio.Lock()

    async def create(self, spec: InstanceSpec) -> Instance:
        """Run one instance, in the first subnet that takes it."""
        request = self._request(spec)
        if spec.public_key:
            request["KeyName"] = await self._key(spec.public_key)
        count = max(1, len(self._settings.subnets))
        refused: LadingError | None = None
        # The subnet that took the last instance comes first: others were full a moment ago.
        turns = [(self._subnet + turn) % count for turn in range(count)]
        turns.sort(key=lambda index: self._zone_of(index) in spec.avoided_zones)
        for index in turns:
            if self._settings.subnets:
                request["NetworkInterfaces"][0]["SubnetId"] = self._settings.subnets[index]
            try:
                answer = await self._call("run_instances", **request)
            except (_Refused, NoCapacity, QuotaReached) as error:
                # Another subnet may have room. Of several refusals, one about the type is reported.
                refused = error if refused is None or isinstance(error, NoCapacity) else refused
                self._starts[self._subnet_of(index), False] += 1
            except LadingError:
                self._starts[self._subnet_of(index), False] += 1
                raise
            else:
                self._starts[self._subnet_of(index), True] += 1
                self._subnet = index
                return self._instance(answer["Instances"][0])
        assert refused is not None
        raise refused

    async def list(self) -> list[Instance]:
        """The VMs that carry the tag and are not about to end."""
        filters = [
            {"Name": f"tag:{self._settings.tag}", "Values": [self._settings.set_id]},
            {"Name": "instance-state-name", "Values": list(_LIVE)},
        ]
        await self._learn_zones()
        instances: list[Instance] = []
        counts: Counter[str] = Counter()
        more: dict[str, str] = {}
        while True:
            answer = await self._call("describe_instances", Filters=filters, **more)
            listed = [record for group in answer["Reservations"] for record in group["Instances"]]
            instances += [self._instance(record) for record in listed]
            counts.update(str(record.get("SubnetId") or "") for record in listed)
            if not answer.get("NextToken"):
                self._by_subnet = counts
                return instances
            more = {"NextToken": answer["NextToken"]}

    def subnets(self) -> tuple[SubnetFigures, ...]:
        """Requested VMs by subnet, and those of the last list."""
        names = {*self._settings.subnets, *self._by_subnet, *(name for name, _ in self._starts)}
        return tuple(
            SubnetFigures(
                id=name, instances=self._by_subnet[name], started=self._starts[name, True],
                refused=self._starts[name, False],
            )
            for name in sorted(names)
        )  # fmt: skip

    def zones(self) -> tuple[str, ...]:
        """The zones of the subnets; none where they are not known."""
        return tuple(dict.fromkeys(self._zones.values()))

    def _zone_of(self, index: int) -> str:
        return self._zones.get(self._subnet_of(index), "")

    async def _learn_zones(self) -> None:
        """Query the zones of the subnets, once."""
        if not self._settings.subnets or self._asked_for_zones:
            return
        self._asked_for_zones = True
        try:
            answer = await self._call("describe_subnets", SubnetIds=list(self._settings.subnets))
        except LadingError as error:
            # Without the right for that, a type that was taken away is avoided in all subnets.
            event(_logger, "zones not known", why=error.message)
            return
        self._zones = {
            str(subnet["SubnetId"]): str(subnet["AvailabilityZone"]) for subnet in answer["Subnets"]
        }

    def _subnet_of(self, index: int) -> str:
        return self._settings.subnets[index] if self._settings.subnets else ""

    async def price_history(
        self, kind: InstanceType, zone: str, *, since: datetime
    ) -> Sequence[Price]:
        """The spot prices of a type, including the price of its added volume."""
        volume = kind.added / GIB * self._settings.volume_price / _HOURS_OF_MONTH
        query: dict[str, Any] = {
            "InstanceTypes": [kind.provider_type], "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": since,
        }  # fmt: skip
        if zone:
            query["AvailabilityZone"] = zone
        prices: list[Price] = []
        while True:
            answer = await self._call("describe_spot_price_history", **query)
            prices += [
                Price(record["Timestamp"], round(float(record["SpotPrice"]) + volume, 9))
                for record in answer.get("SpotPriceHistory") or []
            ]
            if not answer.get("NextToken"):
                return prices
            query["NextToken"] = answer["NextToken"]

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Write tags."""
        await self._call("create_tags", Resources=[id], Tags=_pairs(tags))

    async def destroy(self, id: str) -> None:
        """Terminate it."""
        try:
            await self._call("terminate_instances", InstanceIds=[id])
        except _Refused as error:
            # The instance is gone already.
            if "NotFound" not in error.message:
                raise

    async def console(self, id: str) -> str:
        """The latest console output: EC2 keeps the last 64 KiB, for an hour after the end."""
        try:
            # `Latest` would refuse all instances that do not run on Nitro.
            answer = await self._call("get_console_output", InstanceId=id)
        except _Refused as error:
            if "NotFound" in error.message:
                return ""
            raise
        # Decoded by botocore.
        return str(answer.get("Output") or "")

    def group(self, kind: InstanceType) -> str:
        """The quota group of a type: by the longest beginning of its name that is configured, else
        by its letters.
        """
        name = kind.provider_type
        starts = sorted(
            (start for start in self._settings.quota_groups if name.startswith(start)),
            key=len,
            reverse=True,
        )
        # Of "t3.small" the letters before the first digit: AWS counts quotas by family.
        letters = name[
            : next((n for n, letter in enumerate(name) if not letter.isalpha()), len(name))
        ]
        group = self._settings.quota_groups[starts[0]] if starts else letters
        return f"{group}{'-spot' if kind.preemptible else ''}"

    def _request(self, spec: InstanceSpec) -> dict[str, Any]:
        chosen, kind = self._settings, spec.kind
        network: dict[str, Any] = {
            "DeviceIndex": 0, "AssociatePublicIpAddress": chosen.has_public_address,
            "DeleteOnTermination": True,
        }  # fmt: skip
        if chosen.groups:
            network["Groups"] = list(chosen.groups)
        request: dict[str, Any] = {
            "ImageId": spec.image,
            "InstanceType": kind.provider_type,
            "MinCount": 1,
            "MaxCount": 1,
            # A VM that shuts down by itself is removed, and not only stopped.
            "InstanceInitiatedShutdownBehavior": "terminate",
            # Version 2 of the metadata service alone: a forwarded GET cannot read the VM's
            # credentials.
            "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled"},
            "NetworkInterfaces": [network],
            "TagSpecifications": [
                {"ResourceType": tagged, "Tags": _pairs(spec.tags)}
                for tagged in ("instance", "volume")[: 2 if chosen.tags_volumes else 1]
            ],
            "UserData": spec.user_data,
        }
        if volumes := self._volumes(kind):
            request["BlockDeviceMappings"] = volumes
        if kind.preemptible:
            spot = {
                "SpotInstanceType": "one-time",
                # A stopped instance would keep its volumes, which are paid for.
                "InstanceInterruptionBehavior": "terminate",
                "MaxPrice": f"{kind.price:g}",
            }
            request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": spot}
        if chosen.profile:
            request["IamInstanceProfile"] = {"Name": chosen.profile}
        return request

    def _volumes(self, kind: InstanceType) -> Sequence[dict[str, Any]]:
        """The root disk, if something about it is asked for, and the added scratch."""
        chosen = self._settings
        common: dict[str, Any] = {"DeleteOnTermination": True, "VolumeType": chosen.volume_type}
        if chosen.is_encrypted:
            common["Encrypted"] = True
            if chosen.kms_key:
                common["KmsKeyId"] = chosen.kms_key
        volumes = []
        if chosen.is_encrypted or chosen.root_size:
            # The size of the image's own disk counts without a size here.
            size = {"VolumeSize": math.ceil(chosen.root_size / GIB)} if chosen.root_size else {}
            volumes.append({"DeviceName": chosen.root_device, "Ebs": common | size})
        if kind.added:
            # EC2 counts whole GiB.
            size = {"VolumeSize": math.ceil(kind.added / GIB)}
            volumes.append({"DeviceName": "/dev/xvdt", "Ebs": common | size})
        return volumes

    async def _key(self, public: str) -> str:
        """The name of the key pair, which is imported when it is not there."""
        # One import at a time: several creations at the start would all find the key missing.
        async with self._alone:
            if public not in self._keys:
                digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
                name = f"lading-dispatch-keypair-{base64.b64encode(digest).decode().rstrip('=')}"
                try:
                    await self._call(
                        "import_key_pair", KeyName=name, PublicKeyMaterial=public.encode()
                    )
                except _Refused as error:
                    # An earlier dispatcher with the same key has imported it.
                    if "InvalidKeyPair.Duplicate" not in error.message:
                        raise
                self._keys[public] = name
            return self._keys[public]

    def _instance(self, record: Mapping[str, Any]) -> Instance:
        return Instance(
            id=record["InstanceId"],
            provider_type=record.get("InstanceType", ""),
            address=record.get("PrivateIpAddress") or "",
            user=self._settings.user,
            tags={tag["Key"]: tag["Value"] for tag in record.get("Tags", [])},
            zone=str((record.get("Placement") or {}).get("AvailabilityZone") or ""),
        )

    async def _call(self, name: str, **arguments: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return await getattr(self._client, name)(**arguments)
        except ClientError as error:
            given = error.response.get("Error", {})
            raise refusal(str(given.get("Code", "")), str(given.get("Message", ""))) from error
        except (BotoCoreError, OSError) as error:
            raise Unavailable(f"EC2 cannot be reached: {error}") from error


class _Refused(Unavailable):
    """EC2 refused a call for another reason."""


def refusal(code: str, message: str) -> LadingError:
    """The error for a refusal by EC2."""
    sentence = f"EC2: {code}: {' '.join(message.split())[:300]}"
    if code in _THROTTLE:
        return RateLimited(sentence)
    if code in _QUOTA:
        return QuotaReached(sentence)
    if code in _CAPACITY or (code == "Unsupported" and "requested instance type" in message):
        return NoCapacity(sentence)
    if code in _WRONG:
        return Invalid(
            f"{sentence}; check Containers.CloudVMs (DriverParameters, ImageID) and InstanceTypes"
        )
    return _Refused(sentence)


@asynccontextmanager
async def open_ec2(site: DriverSite) -> AsyncGenerator[Ec2Driver]:
    """The driver. Raises Invalid for parameters that cannot be."""
    from aiobotocore.config import AioConfig
    from aiobotocore.session import get_session

    settings = read(site)
    endpoint = text(site.parameters, "Endpoint", "")
    key, secret = (
        text(site.parameters, "AccessKeyID", ""),
        text(site.parameters, "SecretAccessKey", ""),
    )
    # The pool repeats calls, by the kind of refusal.
    config = AioConfig(
        connect_timeout=10,
        read_timeout=60,
        retries={"total_max_attempts": 1},
        max_pool_connections=20,
    )
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            get_session().create_client(
                "ec2", region_name=settings.region, endpoint_url=endpoint or None,
                aws_access_key_id=key or None, aws_secret_access_key=secret or None, config=config,
            )
        )  # fmt: skip
        yield Ec2Driver(settings, client)


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": name, "Value": value} for name, value in sorted(tags.items())]

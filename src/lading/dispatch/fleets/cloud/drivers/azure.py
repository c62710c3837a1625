r"""Azure: VMs with a network interface, which has the tags of its VM and is removed with it.

- The interface is made first. It is removed when the VM cannot be made; Azure removes it, and the
  disks, with the VM; interfaces that remain nevertheless, as of a dispatcher that was killed in
  between, are removed at a list.
- A request that Azure accepts can fail afterwards for lack of capacity: its result is awaited for a
  while.
- Preemptible VMs have priority Spot, at most at the price of their type, and are deleted when they
  are preempted.

Tags: names to 512 characters without <>%&\?/, values to 256, at most 50.

Parameters: SubscriptionID, TenantID, ClientID, ClientSecret, CloudEnvironment, Location,
ResourceGroup, NetworkResourceGroup (else the same), Network, Subnet, SecurityGroup (a resource id),
AdminUsername, StorageAccountType, DeleteDanglingResourcesAfter (seconds), and for images
ImageResourceGroup, SharedImageGalleryName, SharedImageGalleryImageVersion. ImageID is a resource
id, PUBLISHER:OFFER:SKU:VERSION, or a name in these.
"""

from __future__ import annotations

import base64
import logging
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from lading.core.errors import Invalid, LadingError, Unavailable
from lading.core.resources import GIB
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    Instance,
    InstanceSpec,
    bad_parameter,
    refuse_unknown,
    text,
)
from lading.dispatch.fleets.cloud.drivers.libcloud_connection import (
    TIMEOUT,
    LibcloudConnection,
    Missing,
    ProviderLogin,
    Words,
    judge,
    log_in,
    wait_for,
)
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch.fleets.cloud")
PARAMETERS = (
    "Provider", "SubscriptionID", "TenantID", "ClientID", "ClientSecret", "CloudEnvironment",
    "Location", "ResourceGroup", "NetworkResourceGroup", "Network", "Subnet", "SecurityGroup",
    "AdminUsername", "StorageAccountType", "DeleteDanglingResourcesAfter", "ImageResourceGroup",
    "SharedImageGalleryName", "SharedImageGalleryImageVersion",
)  # fmt: skip
WORDS = Words(
    cloud="Azure",
    rate=frozenset(
        {
            "TooManyRequests", "OperationNotAllowedTooManyRequests",
            "SubscriptionRequestsThrottled",
        }
    ),
    quota=frozenset({"QuotaExceeded", "ResourceQuotaExceeded"}),
    quota_said=re.compile(r"exceed|quota|limit", re.IGNORECASE),
    capacity=frozenset(
        {
            "SkuNotAvailable", "AllocationFailed", "ZonalAllocationFailed",
            "OverconstrainedAllocationRequest", "OverconstrainedZonalAllocationRequest",
            "SpotVMPriceTooLow",
        }
    ),
    wrong_said=re.compile(
        r"AADSTS|access_token|InvalidSubscription|SubscriptionNotFound|ResourceGroupNotFound"
    ),
)  # fmt: skip
ENVIRONMENTS = ("AzurePublicCloud", "AzureChinaCloud", "AzureUSGovernment", "AzureGermanCloud")
_COMPUTE, _NETWORK = {"api-version": "2022-03-01"}, {"api-version": "2021-05-01"}
_MADE_AT = "created-at"
# Seconds for which a creation is watched, and between two looks: Azure accepts some that it refuses
# later.
_WAIT, _PAUSE = 20.0, 1.0
_LONGEST_BLOB = 4 << 20
_Records = list[Mapping[str, Any]]
# Characters that Azure refuses in names of tags.
_BAD_NAME = re.compile(r"[<>%&\\?/]")


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSettings:
    """The parameters, read. `busy` has the names of VMs that are being made now."""

    subscription: str
    tenant: str
    client: str
    secret: str = field(repr=False)
    environment: str
    location: str
    group: str
    network_group: str
    network: str
    subnet: str
    security_group: str
    user: str
    disk_type: str
    dangling: float
    image_group: str
    gallery: str
    gallery_version: str
    tag: str
    set_id: str
    busy: set[str] = field(default_factory=set)


class AzureProvider:
    """Implements `Provider`."""

    def __init__(
        self,
        settings: AzureSettings,
        line: LibcloudConnection,
        *,
        read_blob: Callable[[str], str] | None = None,
    ) -> None:
        self._settings, self._line = settings, line
        self._read_blob = read_blob or _read_blob

    def create(self, spec: InstanceSpec) -> Instance:
        """Make the interface, then the VM."""
        check_tags(spec.tags)
        if not spec.public_key:
            raise Invalid(
                "Azure: a VM needs a public key; leave Containers.CloudVMs.DeployPublicKey as true"
            )
        # Computer names of Linux have at most 64 characters: 8 + 32 + 1 + 15 leaves room.
        name = f"compute-{_slug(self._settings.set_id)[:32]}-{secrets.token_hex(8)[:15]}"
        # `_sweep` leaves it alone: between the two calls the interface belongs to no VM yet.
        self._settings.busy.add(name)
        try:
            address = self._add_interface(name, spec)
            try:
                self._add_machine(name, spec)
            except LadingError:
                # The machine first: it may be there although it was refused.
                with suppress(LadingError):
                    self._line.ask("DELETE", self._machine(name), params=_COMPUTE)
                with suppress(LadingError):
                    self._line.ask("DELETE", self._interface(name), params=_NETWORK)
                raise
        # The id of the image, the network or the group is wrong: only the configuration can name an
        # object that Azure does not have.
        except Missing as error:
            raise error.at_creation() from error
        finally:
            self._settings.busy.discard(name)
        return Instance(
            id=name,
            provider_type=spec.kind.provider_type,
            address=address,
            user=self._settings.user,
            tags=spec.tags,
        )

    def list(self) -> list[Instance]:
        """The VMs with the tag that are not being deleted; interfaces and disks without a VM are
        removed.
        """
        machines = [
            machine
            for machine in self._pages(self._folder("Microsoft.Compute/virtualMachines"), _COMPUTE)
            if self._is_ours(machine)
            # A VM that is being deleted stays listed for a while.
            and machine.get("properties", {}).get("provisioningState") != "Deleting"
        ]
        folder = self._folder("Microsoft.Network/networkInterfaces", self._settings.network_group)
        interfaces = [
            interface for interface in self._pages(folder, _NETWORK) if self._is_ours(interface)
        ]
        addresses = {str(interface.get("name")): _address(interface) for interface in interfaces}
        self._sweep(interfaces, {str(machine.get("name")) for machine in machines})
        return [
            Instance(
                id=machine["name"],
                provider_type=machine.get("properties", {})
                .get("hardwareProfile", {})
                .get("vmSize", ""),
                address=addresses.get(machine["name"], ""),
                user=self._settings.user,
                tags={
                    name: value
                    for name, value in (machine.get("tags") or {}).items()
                    if name != _MADE_AT
                },
            )
            for machine in machines
        ]

    def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Replace the tags of a VM."""
        check_tags(tags)
        with suppress(Missing):
            self._line.ask("PATCH", self._machine(id), params=_COMPUTE, body={"tags": dict(tags)})

    def destroy(self, id: str) -> None:
        """Delete the VM. Azure deletes its interface and disks with it; `list` deletes any that
        remain.
        """
        with suppress(Missing):
            # Skips the shutdown of the VM's system, which Azure would wait for.
            self._line.ask("DELETE", self._machine(id), params=_COMPUTE | {"forceDeletion": "true"})

    def console(self, id: str) -> str:
        """The serial console's log, which Azure keeps as a blob for VMs with boot diagnostics."""
        with suppress(Missing):
            path = f"{self._machine(id)}/retrieveBootDiagnosticsData"
            found = self._line.ask("POST", path, params=_COMPUTE).document
            where = str(found.get("serialConsoleLogBlobUri") or "")
            return self._read_blob(where) if where else ""
        return ""

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _add_interface(self, name: str, spec: InstanceSpec) -> str:
        chosen = self._settings
        subnet = (
            self._folder(
                f"Microsoft.Network/virtualNetworks/{chosen.network}", chosen.network_group
            )
            + f"/subnets/{chosen.subnet}"
        )
        inner: dict[str, Any] = {"subnet": {"id": subnet}, "privateIPAllocationMethod": "Dynamic"}
        properties: dict[str, Any] = {"ipConfigurations": [{"name": "ip1", "properties": inner}]}
        if chosen.security_group:
            properties["networkSecurityGroup"] = {"id": chosen.security_group}
        # Azure's record of interfaces has no time of creation, which `_sweep` needs.
        made_at = {_MADE_AT: str(int(time.time()))}
        body = {
            "location": chosen.location,
            "tags": dict(spec.tags) | made_at,
            "properties": properties,
        }
        return _address(
            self._line.ask("PUT", self._interface(name), params=_NETWORK, body=body).document
        )

    def _add_machine(self, name: str, spec: InstanceSpec) -> None:
        answer = self._line.ask(
            "PUT", self._machine(name), params=_COMPUTE, body=self._instance_body(name, spec)
        )
        # The order was taken; a lack of capacity shows only at the end of the operation.
        at = answer.headers.get("azure-asyncoperation", "")
        if not at:
            return
        way = urlsplit(at)
        params = dict(parse_qsl(way.query))

        def done() -> bool:
            operation = self._line.ask("GET", way.path, params=params).document
            if operation.get("status") in ("Failed", "Canceled"):
                fault = operation.get("error") or {}
                raise judge(
                    WORDS,
                    0,
                    code=str(fault.get("code") or ""),
                    message=str(fault.get("message") or operation),
                )
            return operation.get("status") == "Succeeded"

        wait_for(done, longest=_WAIT, pause=_PAUSE)

    def _instance_body(self, name: str, spec: InstanceSpec) -> dict[str, Any]:
        chosen, kind = self._settings, spec.kind
        disk = {"managedDisk": {"storageAccountType": chosen.disk_type}, "deleteOption": "Delete"}
        storage: dict[str, Any] = {
            "imageReference": self._image(spec.image),
            "osDisk": {"createOption": "FromImage", "caching": "ReadWrite", **disk},
        }
        if kind.added:
            size = math.ceil(kind.added / GIB)
            storage["dataDisks"] = [{"lun": 0, "createOption": "Empty", "diskSizeGB": size, **disk}]
        key = {"path": f"/home/{chosen.user}/.ssh/authorized_keys", "keyData": spec.public_key}
        properties: dict[str, Any] = {
            "hardwareProfile": {"vmSize": kind.provider_type},
            "storageProfile": storage,
            "osProfile": {
                "computerName": name,
                "adminUsername": chosen.user,
                "customData": base64.b64encode(spec.user_data.encode()).decode(),
                "linuxConfiguration": {
                    "disablePasswordAuthentication": True,
                    "ssh": {"publicKeys": [key]},
                },
            },
            # In storage that Azure manages: the console's log is kept there.
            "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
            "networkProfile": {
                "networkInterfaces": [
                    {
                        "id": self._interface(name),
                        "properties": {"primary": True, "deleteOption": "Delete"},
                    }
                ]
            },
        }
        if kind.preemptible:
            properties |= {
                "priority": "Spot", "evictionPolicy": "Delete",
                # -1 lets Azure charge up to the price on demand.
                "billingProfile": {"maxPrice": kind.price or -1},
            }  # fmt: skip
        return {"location": chosen.location, "tags": dict(spec.tags), "properties": properties}

    def _image(self, image: str) -> dict[str, str]:
        chosen = self._settings
        if image.startswith("/"):
            return {"id": image}
        if image.count(":") == 3:
            return dict(
                zip(("publisher", "offer", "sku", "version"), image.split(":"), strict=True)
            )
        if chosen.gallery:
            path = f"galleries/{chosen.gallery}/images/{image}/versions/{chosen.gallery_version}"
        else:
            path = f"images/{image}"
        return {"id": self._folder(f"Microsoft.Compute/{path}", chosen.image_group)}

    def _sweep(self, interfaces: _Records, machines: set[str]) -> None:
        """Remove network interfaces that this driver made and that no VM has."""
        now = time.time()
        for interface in interfaces:
            name, made_at = (
                str(interface.get("name")),
                str((interface.get("tags") or {}).get(_MADE_AT, "")),
            )
            used = (
                name in machines
                or name in self._settings.busy
                or interface.get("properties", {}).get("virtualMachine")
            )
            # Interfaces without our time were made by another program: they are left alone.
            if used or not made_at.isdecimal() or now - int(made_at) < self._settings.dangling:
                continue
            try:
                self._line.ask("DELETE", self._interface(name), params=_NETWORK)
                event(_logger, "network interface without an instance removed", interface=name)
            except LadingError as error:
                event(_logger, "network interface not removed", interface=name, why=error.message)

    def _pages(self, path: str, params: Mapping[str, str]) -> _Records:
        items: _Records = []
        more = dict(params)
        while True:
            document = self._line.ask("GET", path, params=more).document
            items += document.get("value") or []
            link = urlsplit(str(document.get("nextLink") or ""))
            if not link.path:
                return items
            path, more = link.path, dict(params) | dict(parse_qsl(link.query))

    def _is_ours(self, resource: Mapping[str, Any]) -> bool:
        return (resource.get("tags") or {}).get(self._settings.tag) == self._settings.set_id

    def _folder(self, path: str, group: str = "") -> str:
        chosen = self._settings
        return (
            f"/subscriptions/{chosen.subscription}/resourceGroups/{group or chosen.group}"
            f"/providers/{path}"
        )

    def _machine(self, name: str) -> str:
        return self._folder(f"Microsoft.Compute/virtualMachines/{name}")

    def _interface(self, name: str) -> str:
        return self._folder(
            f"Microsoft.Network/networkInterfaces/{name}", self._settings.network_group
        )


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises Invalid for tags that Azure does not take."""
    allowed = "names to 512 characters without <>%&\\?/, values to 256 characters, at most 50"
    for name, value in tags.items():
        if (
            not name
            or len(name) > 512
            or _BAD_NAME.search(name)
            or len(value) > 256
            # 49: the interface has the tags, and one more with the time of its creation (Azure
            # allows 50).
            or len(tags) > 49
        ):
            raise Invalid(
                "configuration: Containers.CloudVMs.ResourceTags:"
                f" {name}: {value[:40]!r}; Azure has {allowed}"
            )


def group(kind: InstanceType) -> str:
    """The family of a size: its name without the number of CPUs, spot apart."""
    family = re.sub(r"(?<=[A-Za-z])\d+(-\d+)?(?=[a-z]*(_|$))", "", kind.provider_type, count=1)
    return f"{family}{'-spot' if kind.preemptible else ''}"


def read(site: DriverSite) -> AzureSettings:
    """The parameters of the configuration. Raises Invalid."""
    parameters = site.parameters
    refuse_unknown(parameters, PARAMETERS)
    own = text(parameters, "ResourceGroup", allowed="the name of a resource group")
    environment = text(parameters, "CloudEnvironment", ENVIRONMENTS[0])
    if environment not in ENVIRONMENTS:
        raise bad_parameter("CloudEnvironment", environment, f"one of {', '.join(ENVIRONMENTS)}")
    dangling = parameters.get("DeleteDanglingResourcesAfter", 20)
    if isinstance(dangling, bool) or not isinstance(dangling, int | float) or dangling < 0:
        raise bad_parameter(
            "DeleteDanglingResourcesAfter", dangling, "a number of seconds, 0 or more"
        )
    return AzureSettings(
        subscription=text(parameters, "SubscriptionID", allowed="the id of a subscription"),
        tenant=text(parameters, "TenantID", allowed="the id of a tenant"),
        client=text(parameters, "ClientID", allowed="the id of an application of the tenant"),
        secret=text(parameters, "ClientSecret", allowed="the secret of that application"),
        environment=environment,
        location=text(parameters, "Location", "centralus"),
        group=own,
        network_group=text(parameters, "NetworkResourceGroup", own),
        network=text(parameters, "Network", allowed="the name of a virtual network"),
        subnet=text(parameters, "Subnet", "default"),
        security_group=text(parameters, "SecurityGroup", ""),
        user=text(parameters, "AdminUsername", "crunch"),
        disk_type=text(parameters, "StorageAccountType", "Standard_LRS"),
        dangling=float(dangling),
        image_group=text(parameters, "ImageResourceGroup", own),
        gallery=text(parameters, "SharedImageGalleryName", ""),
        gallery_version=text(parameters, "SharedImageGalleryImageVersion", "latest"),
        tag=site.tag,
        set_id=site.set_id,
    )


def opening(site: DriverSite) -> ProviderLogin:
    """The login to Azure from the driver's parameters. Raises Invalid."""
    settings = read(site)

    def start() -> AzureProvider:
        from libcloud.compute.drivers.azure_arm import AzureNodeDriver

        environment = "default" if settings.environment == ENVIRONMENTS[0] else settings.environment
        driver = partial(
            AzureNodeDriver, settings.tenant, settings.subscription, settings.client,
            settings.secret, cloud_environment=environment, timeout=TIMEOUT,
        )  # fmt: skip
        return AzureProvider(settings, log_in(WORDS, driver))

    return ProviderLogin(open=start, group=group, preemption="azure")


def _read_blob(uri: str) -> str:
    """The beginning of a blob, at most 4 MiB, by an address with a signature in it. Raises
    Unavailable, without the address.
    """
    import requests

    if not uri.startswith("https://"):
        raise Unavailable("Azure: the address of the console's log is not one of https")
    try:
        with requests.get(uri, timeout=TIMEOUT, stream=True, allow_redirects=False) as answer:
            if answer.status_code != 200:
                raise Unavailable(f"Azure: the console's log: HTTP {answer.status_code}")
            data = answer.raw.read(_LONGEST_BLOB, decode_content=True)
    except requests.RequestException as error:
        # The text of the error would have the address, which needs no further token.
        raise Unavailable(f"Azure: the console's log: {type(error).__name__}") from None
    return str(data.decode(errors="replace"))


def _address(interface: Mapping[str, Any]) -> str:
    found = interface.get("properties", {}).get("ipConfigurations") or [{}]
    return str(found[0].get("properties", {}).get("privateIPAddress") or "")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9-]", "-", name.lower())

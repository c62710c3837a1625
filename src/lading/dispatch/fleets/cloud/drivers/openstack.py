"""OpenStack: Nova's servers, in one project, found through Keystone's catalog.

- Tags are the metadata of a server: names of letters, digits and -_:. and values to 255 characters
  each.
- A provider type is the name or the id of a flavor. Names are looked up once, and again for an
  unknown name.
- Nova accepts requests for which it then finds no host: the server's state is awaited for a while,
  and a server in state ERROR is removed.
- The key pair is imported once, under a name with its fingerprint. There are no preemptible
  servers.

Parameters: AuthURL, Username and Password with Project, Domain (both by name), or
ApplicationCredentialID and ApplicationCredentialSecret; Region, Network (an id, or a list),
SecurityGroups (names), AvailabilityZone, AdminUsername. ImageID is an image's id.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from lading.core.errors import Invalid, LadingError
from lading.core.resources import GIB
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    Instance,
    InstanceSpec,
    NoCapacity,
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

PARAMETERS = (
    "Provider", "AuthURL", "Username", "Password", "Project", "Domain", "ApplicationCredentialID",
    "ApplicationCredentialSecret", "Region", "Network", "SecurityGroups", "AvailabilityZone",
    "AdminUsername",
)  # fmt: skip
WORDS = Words(
    cloud="OpenStack",
    quota_said=re.compile(r"quota|exceeded", re.IGNORECASE),
    capacity_said=re.compile(r"No valid host|enough hosts|[Ii]nsufficient compute"),
    wrong_said=re.compile(r"Could not find (specified )?endpoint|[Ii]nvalid [Cc]redential"),
)
# Names of metadata that Nova takes.
_NAME = re.compile(r"[A-Za-z0-9_:. -]{1,255}")
# Servers asked for at a time: below the default limit of Nova, 1,000.
_PAGE = 500
# Seconds for which a creation is watched, and between two looks: Nova accepts some for which it
# then finds no host.
_WAIT, _PAUSE = 15.0, 1.0
# Lines of a console: some 64 KiB.
_CONSOLE_LINES = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStackSettings:
    """The parameters, read."""

    auth_url: str
    username: str
    password: str = field(repr=False)
    project: str
    domain: str
    application: bool
    region: str
    networks: tuple[str, ...]
    security_groups: tuple[str, ...]
    zone: str
    user: str
    tag: str
    set_id: str


class OpenStack:
    """Implements `Provider`."""

    def __init__(self, settings: OpenStackSettings, line: LibcloudConnection) -> None:
        self._settings, self._line = settings, line
        self._flavors: dict[str, str] = {}
        self._keys: set[str] = set()
        self._prefix = f"compute-{re.sub(r'[^a-z0-9-]', '-', settings.set_id.lower())[:32]}-"

    def create(self, spec: InstanceSpec) -> Instance:
        """Order a server."""
        check_tags(spec.tags)
        if spec.kind.preemptible:
            raise NoCapacity(
                "OpenStack: it has no preemptible servers; leave Preemptible out of InstanceTypes"
            )
        flavor = self._flavor(spec.kind.provider_type)
        if not flavor:
            known = ", ".join(sorted(self._flavors.values())[:20])
            raise Invalid(
                f"configuration: InstanceTypes.{spec.kind.name}.ProviderType:"
                f" {spec.kind.provider_type!r}; OpenStack has the flavors {known}"
            )
        wanted = self._instance_body(spec, flavor)
        if spec.public_key:
            wanted["key_name"] = self._key(spec.public_key)
        try:
            made = self._line.ask("POST", "/servers", body={"server": wanted}).document["server"]
        except Missing as error:
            raise error.at_creation() from error
        self._settle(str(made["id"]))
        return Instance(
            id=made["id"],
            provider_type=spec.kind.provider_type,
            user=self._settings.user,
            tags=dict(spec.tags),
        )

    def list(self) -> list[Instance]:
        """The VMs with the tag that are not being deleted."""
        instances: list[Instance] = []
        more: dict[str, str] = {}
        while True:
            params = {"name": f"^{self._prefix}", "limit": str(_PAGE), **more}
            servers = (
                self._line.ask("GET", "/servers/detail", params=params).document.get("servers")
                or []
            )
            instances += [self._instance(server) for server in servers if self._is_ours(server)]
            if len(servers) < _PAGE:
                return instances
            more = {"marker": str(servers[-1]["id"])}

    def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Replace the metadata."""
        check_tags(tags)
        with suppress(Missing):
            self._line.ask("PUT", f"/servers/{id}/metadata", body={"metadata": dict(tags)})

    def destroy(self, id: str) -> None:
        """Delete it."""
        with suppress(Missing):
            self._line.ask("DELETE", f"/servers/{id}")

    def console(self, id: str) -> str:
        """The end of its console's log."""
        with suppress(Missing):
            body = {"os-getConsoleOutput": {"length": _CONSOLE_LINES}}
            found = self._line.ask("POST", f"/servers/{id}/action", body=body).document
            return str(found.get("output") or "")
        return ""

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _instance_body(self, spec: InstanceSpec, flavor: str) -> dict[str, Any]:
        chosen = self._settings
        body: dict[str, Any] = {
            "name": f"{self._prefix}{secrets.token_hex(8)}",
            "imageRef": spec.image,
            "flavorRef": flavor,
            "metadata": dict(spec.tags),
            "user_data": base64.b64encode(spec.user_data.encode()).decode(),
        }
        if chosen.networks:
            body["networks"] = [{"uuid": network} for network in chosen.networks]
        if chosen.security_groups:
            body["security_groups"] = [{"name": group} for group in chosen.security_groups]
        if chosen.zone:
            body["availability_zone"] = chosen.zone
        if spec.kind.added:
            ends = {"delete_on_termination": True}
            boot = {
                "source_type": "image",
                "uuid": spec.image,
                "destination_type": "local",
                "boot_index": 0,
                **ends,
            }
            size = math.ceil(spec.kind.added / GIB)
            scratch = {
                "source_type": "blank",
                "destination_type": "volume",
                "volume_size": size,
                "boot_index": -1,
                **ends,
            }
            body["block_device_mapping_v2"] = [boot, scratch]
        return body

    def _settle(self, id: str) -> None:
        """Wait until the server has a host. Raises the error of a failed server, after its
        removal.
        """

        def done() -> bool:
            try:
                server = self._line.ask("GET", f"/servers/{id}").document.get("server") or {}
            except Missing:
                # The new server is not listed yet.
                return False
            if server.get("status") == "ERROR":
                fault = server.get("fault") or {}
                message = str(fault.get("message") or "the server is in the state ERROR")
                raise judge(WORDS, 0, code=str(fault.get("code") or ""), message=message)
            return server.get("status") != "BUILD"

        try:
            wait_for(done, longest=_WAIT, pause=_PAUSE)
        except LadingError:
            # The first error says why; a server that stays is found by the next list.
            with suppress(LadingError):
                self.destroy(id)
            raise

    def _flavor(self, name: str) -> str:
        """The id of a flavor, "" when there is none."""
        if name not in self._flavors.values():
            flavors = self._line.ask("GET", "/flavors/detail").document.get("flavors") or []
            self._flavors = {str(flavor["id"]): str(flavor["name"]) for flavor in flavors}
        by_name = {flavor_name: id for id, flavor_name in self._flavors.items()}
        return by_name.get(name) or (name if name in self._flavors else "")

    def _key(self, public: str) -> str:
        digest = hashlib.sha256(base64.b64decode(public.split()[1])).hexdigest()
        name = f"lading-dispatch-keypair-{digest[:40]}"
        if name not in self._keys:
            body = {"keypair": {"name": name, "public_key": public}}
            try:
                self._line.ask("GET", f"/os-keypairs/{name}")
            except Missing:
                self._line.ask("POST", "/os-keypairs", body=body)
            self._keys.add(name)
        return name

    def _is_ours(self, server: Mapping[str, Any]) -> bool:
        ours = (server.get("metadata") or {}).get(self._settings.tag) == self._settings.set_id
        return (
            ours
            and server.get("status") != "DELETED"
            and server.get("OS-EXT-STS:task_state") != "deleting"
        )

    def _instance(self, server: Mapping[str, Any]) -> Instance:
        flavor = server.get("flavor") or {}
        id = str(flavor.get("id") or "")
        name = flavor.get("original_name") or self._flavors.get(id)
        if name is None and id:
            self._flavor(id)
            name = self._flavors.get(id, id)
        return Instance(
            id=str(server["id"]),
            provider_type=str(name or ""),
            address=_address(server.get("addresses") or {}),
            user=self._settings.user,
            tags=dict(server.get("metadata") or {}),
        )


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises Invalid for tags that OpenStack does not take."""
    allowed = "names of letters, digits and -_:. and values to 255 characters"
    for name, value in tags.items():
        if not _NAME.fullmatch(name) or len(value) > 255:
            raise Invalid(
                "configuration: Containers.CloudVMs.ResourceTags:"
                f" {name}: {value[:40]!r}; OpenStack has {allowed}"
            )


def group(kind: InstanceType) -> str:
    """Each flavor by itself."""
    return kind.provider_type


def read(site: DriverSite) -> OpenStackSettings:
    """The parameters of the configuration. Raises Invalid."""
    parameters = site.parameters
    refuse_unknown(parameters, PARAMETERS)
    url = text(
        parameters, "AuthURL", allowed="the URL of Keystone, such as https://cloud.example:5000/v3"
    )
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise bad_parameter(
            "AuthURL", url, "the URL of Keystone, such as https://cloud.example:5000/v3"
        )
    application = bool(parameters.get("ApplicationCredentialID"))
    if application:
        username = text(parameters, "ApplicationCredentialID")
        password = text(
            parameters,
            "ApplicationCredentialSecret",
            allowed="the secret of the application credential",
        )
    else:
        username = text(
            parameters,
            "Username",
            allowed="a user's name, unless there is an ApplicationCredentialID",
        )
        password = text(parameters, "Password", allowed="the user's password")
    return OpenStackSettings(
        auth_url=url.rstrip("/").removesuffix("/v3"),
        username=username,
        password=password,
        project="" if application else text(parameters, "Project", allowed="the name of a project"),
        domain=text(parameters, "Domain", "Default"),
        application=application,
        region=text(parameters, "Region", ""),
        networks=_names(parameters.get("Network"), "Network"),
        security_groups=_names(parameters.get("SecurityGroups"), "SecurityGroups"),
        zone=text(parameters, "AvailabilityZone", ""),
        user=text(parameters, "AdminUsername", "debian"),
        tag=site.tag,
        set_id=site.set_id,
    )


def opening(site: DriverSite) -> ProviderLogin:
    """The login to OpenStack from the driver's parameters. Raises Invalid."""
    settings = read(site)

    def start() -> OpenStack:
        from libcloud.compute.drivers.openstack import OpenStackNodeDriver

        more: dict[str, Any] = (
            {"ex_force_service_region": settings.region} if settings.region else {}
        )
        driver = partial(
            OpenStackNodeDriver, settings.username, settings.password, api_version="2.2",
            ex_force_auth_url=settings.auth_url,
            ex_force_auth_version="3.x_appcred" if settings.application else "3.x_password",
            ex_tenant_name=settings.project or None, ex_domain_name=settings.domain,
            timeout=TIMEOUT, **more,
        )  # fmt: skip
        return OpenStack(settings, log_in(WORDS, driver))

    return ProviderLogin(open=start, group=group)


def _address(networks: Mapping[str, Any]) -> str:
    """The first fixed address, of version 4 if there is one."""
    listed = [address for addresses in networks.values() for address in addresses]
    fixed = [address for address in listed if address.get("OS-EXT-IPS:type", "fixed") == "fixed"]
    chosen = sorted(fixed, key=lambda address: int(address.get("version") or 4))
    return str(chosen[0]["addr"]) if chosen else ""


def _names(value: object, name: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) and value else value or []
    if not isinstance(names, list) or not all(isinstance(item, str) and item for item in names):
        raise bad_parameter(name, value, "a text or a list of texts")
    return tuple(names)

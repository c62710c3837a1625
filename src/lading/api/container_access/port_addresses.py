"""Finds the container and port that an HTTP request is for, by its path, host or port.

Source: docs/spec/shell, section Published ports.

    /services/UUID-PORT/path    by path: UUID of a container or a request
    UUID-PORT.DOMAIN/path       by host, if Services.ContainerWebServices.ExternalURL is
                                https://*.DOMAIN/
    NAME.DOMAIN/path            by the name of a link of class `published_port`: its head is a
                                container or a request, its property `port` the port
    HOST:PORT/path              by a port from ExternalPortMin to ExternalPortMax that a container
                                was given

Names are labels of host names. Each name is unique and belongs to a user who may change its head:
nobody can take over a name, or direct its visitors to a container without permission on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lading.api import authorization
from lading.api.http import ApiCall
from lading.api.services import ApiServices
from lading.config.site import Config
from lading.core import ids
from lading.core.containers import sessions
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.sessions import Target
from lading.core.errors import Gone, Invalid, NotFound, Unavailable
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import Column, Compare, Like, Query
from lading.core.records.record_types import BY_INFIX, LINKS
from lading.core.records.schema import Record, Type
from lading.store import records
from lading.store.database import Transaction

PREFIX: Final = "/services/"
PUBLISHED: Final = "published_port"
# `UUID-PORT--rest` or `UUID-PORT.rest`.
_HOST: Final = re.compile(r"([a-z0-9]{5}-(?:dz642|xvhdp)-[a-z0-9]{15}-[0-9]{1,5})(?:--|\.)(.+)")
# Running containers that may publish ports; the number of ports of a machine.
_MOST: Final = 65536
# A label of a host name (RFC 1123): at most 63 characters.
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAddress:
    """The port of a container that a request is for. `base` is the part of the path that names
    it.
    """

    name: str
    base: str

    @property
    def by_path(self) -> bool:
        """Whether the port shares its origin with others."""
        return bool(self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAddresses:
    """The configured addresses. `suffix` follows the name in a host; there are no external ports
    when `first` is 0.
    """

    suffix: str = ""
    first: int = 0
    last: int = 0
    own: bool = True
    """Whether the server listens on the ports itself."""

    def find(self, scope: Mapping[str, Any]) -> PortAddress | None:
        """The port that a request is for; None when the request is for the API."""
        host = _host_of(scope)
        name, _, port = host.rpartition(":") if ":" in host else (host, "", "")
        match = _HOST.fullmatch(name)
        if match:
            return PortAddress(name=match[1], base="")
        # The name of a link, published by a user; the form above names container and port.
        label = name.removesuffix(self.suffix) if self.suffix and name.endswith(self.suffix) else ""
        if _LABEL.fullmatch(label):
            return PortAddress(name=label, base="")
        number = int(port) if port.isascii() and port.isdigit() and len(port) < 6 else 0
        if self.first and self.first <= number <= self.last:
            return PortAddress(name=f":{port}", base="")
        path = str(scope["path"])
        if not path.startswith(PREFIX):
            return None
        name = path.removeprefix(PREFIX).partition("/")[0]
        return PortAddress(name=name, base=f"{PREFIX}{name}")

    def addresses(self, listen: str) -> tuple[str, ...]:
        """Further addresses at which a server listens that listens at this one."""
        if not self.first or not self.own:
            return ()
        host = listen.rpartition(":")[0]
        return tuple(f"{host}:{port}" for port in range(self.first, self.last + 1))


def _host_of(scope: Mapping[str, Any]) -> str:
    """The header Host of a request in lower case; "" without one."""
    found = next((value for name, value in scope["headers"] if name == b"host"), b"")
    return str(found.decode("latin-1").lower())


def make_sites(config: Config) -> PortAddresses:
    """The configured addresses of published ports. Raises Invalid."""
    web = config.Services.ContainerWebServices
    if "*" in web.ExternalURL:
        return PortAddresses(
            suffix=web.ExternalURL.partition("*")[2].rstrip("/").partition(":")[0].lower()
        )
    if not web.ExternalPortMin:
        return PortAddresses()
    if not 0 < web.ExternalPortMin <= web.ExternalPortMax < 65536:
        raise Invalid(
            "configuration: Services.ContainerWebServices.ExternalPortMax: "
            "must not be below ExternalPortMin"
        )
    return PortAddresses(
        first=web.ExternalPortMin, last=web.ExternalPortMax, own=not web.ExternalURL
    )


def base_url(config: Config, uuid: str, port: str, external: int | None) -> str:
    """The address of a port of a container, with `/` at its end."""
    own, domain_url = config.ExternalURL, config.Services.ContainerWebServices.ExternalURL
    if "*" in domain_url:
        return domain_url.replace("*", f"{uuid}-{port}", 1).rstrip("/") + "/"
    if external is not None:
        host = (domain_url or own).removeprefix("https://").rstrip("/")
        return f"https://{host.rpartition(':')[0] or host}:{external}/"
    return f"{own.rstrip('/')}{PREFIX}{uuid}-{port}/"


async def assign(tx: Transaction, services: ApiServices, container: Container) -> Record:
    """The published ports of a container that begins to run, with the address of each. Raises
    Unavailable.
    """
    config, uuid, published = services.config, container.uuid, container.published_ports
    sites = make_sites(config)
    assigned: Record = {}
    # Within the transaction that stores them, so that no two containers get one port.
    taken = {external for external, _ in await _assigned(tx)} if sites.first else set()
    for port, options in published.items():
        if not isinstance(options, dict):
            continue
        external = None
        if sites.first:
            free = (number for number in range(sites.first, sites.last + 1) if number not in taken)
            external = next(free, None)
            if external is None:
                raise Unavailable(
                    f"all ports from {sites.first} to {sites.last} are in use by other containers"
                )
            taken.add(external)
        base = base_url(config, uuid, port, external)
        more = {} if external is None else {"external_port": external}
        initial = str(options.get("initial_path") or "")
        assigned[port] = {
            **options,
            **more,
            "base_url": base,
            "initial_url": base + initial.lstrip("/"),
        }
    return assigned


async def resolve(tx: Transaction, port_address: PortAddress) -> Target:
    """Container and port of a place. Raises NotFound for an unknown name, Gone for a port without a
    container, Malformed.
    """
    if port_address.by_path or sessions.is_target(port_address.name):
        return sessions.parse_target(port_address.name)
    if port_address.name.startswith(":"):
        number = int(port_address.name[1:])
        for external, target in await _assigned(tx):
            if external == number:
                return target
        raise Gone(f"port {number}: no container has it now")
    links = await records.matching(tx, LINKS, link_class=PUBLISHED, name=port_address.name)
    if not links:
        raise NotFound(f"{port_address.name}: there is no published port of that name")
    # `check_link` refuses a second one; of two that came at once the older counts.
    first = min(links, key=lambda link: (str(link["created_at"]), str(link["uuid"])))
    return Target(
        str(first["head_uuid"]), sessions.check_port(str((first["properties"] or {}).get("port")))
    )


async def check_link(tx: Transaction, call: ApiCall, record: Record) -> None:
    """Check that a link may name a port. Raises Invalid, Forbidden."""
    name, port = str(record["name"]), (record["properties"] or {}).get("port")
    if not _LABEL.fullmatch(name) or sessions.is_target(name):
        raise Invalid(f"name: {name[:70]!r} cannot be part of a host name; use a-z, 0-9 and -")
    if isinstance(port, bool) or not isinstance(port, int | str) or not str(port).isdigit():
        raise Invalid('properties: {"port": NUMBER} is missing')
    sessions.check_port(str(port))
    kind = (
        BY_INFIX.get(ids.infix_of(str(record["head_uuid"])))
        if ids.is_uuid(str(record["head_uuid"]))
        else None
    )
    if kind not in (REQUESTS, CONTAINERS):
        raise Invalid("head_uuid: must be that of a container request or a container")
    head = await authorization.find_readable(
        tx, call.services.clock, call.services.config, kind, str(record["head_uuid"]), call.caller
    )
    # A link gives all who know its name a way to the port.
    await authorization.check_writable(tx, kind, head, call.caller)
    links = await records.matching(tx, LINKS, link_class=PUBLISHED, name=name)
    if any(link["uuid"] != record["uuid"] for link in links):
        raise Invalid(f"name: there is a published port called {name!r} already")


async def _assigned(tx: Transaction) -> list[tuple[int, Target]]:
    """The external ports that running containers have."""
    query = Query(
        where=(
            Compare(Column("state", Type.STRING), "=", ContainerState.RUNNING),
            # Few of the running containers publish ports: the others are not read.
            Like((Column("published_ports", Type.OBJECT),), '%"external_port":%'),
        ),
        select=("uuid", "published_ports"),
        limit=_MOST,
    )  # fmt: skip
    assigned = []
    for row in await records.search(tx, tx.dialect, CONTAINERS, query):
        for port, options in row["published_ports"].items():
            if isinstance(options.get("external_port"), int):
                assigned.append(
                    (options["external_port"], Target(str(row["uuid"]), sessions.check_port(port)))
                )
    return assigned

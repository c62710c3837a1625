"""Checks of `gateway_address`, the address of the gateway of a container.

The server connects to this address, and a worker writes it. So a worker may name itself only:

    tunnel          the gateway has connected to a server, or will
    tunnel URL      the same; only the server with the tunnel writes its own URL
    HOST:PORT       HOST is the source address of the call, or a configured one;
                    PORT is above 1023

A loopback address from another machine is written by Arvados' crunch-run before it has opened its
tunnel; it uses the token of the dispatcher. It is stored as `tunnel`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from lading.core.containers.sessions import TUNNEL, tunnel_url
from lading.core.errors import Invalid

FIRST_PORT = 1024
"""Services of the machine listen below; a gateway has a port that its kernel chose."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Allowed gateway addresses.

    `seen` is the source address of the call, "" for the local socket; `server` the URL of the
    called server; `hosts` are further networks (CIDR), addresses and host names.
    """

    seen: str = ""
    server: str = ""
    hosts: tuple[str, ...] = ()


NOWHERE = Places(seen="nowhere")
"""For calls without an address: only tunnels are allowed."""


def check(address: str, *, stored: str, places: Places, is_holder: bool = False) -> str:
    """The value to store for a written `gateway_address`. Raises Invalid.

    `stored` is the present value; `is_holder`: the writer has the token that locked the container.
    """
    if address in ("", TUNNEL):
        return address
    url = tunnel_url(address)
    if url is not None:
        # Its own URL, or a repetition of the stored one.
        known = {_bare(places.server), _bare(tunnel_url(stored) or "")} - {""}
        if _bare(url) not in known:
            raise Invalid(
                "gateway_address: a server writes its own URL when it takes in a tunnel; "
                "write 'tunnel'"
            )
        return address
    host = _host_of(address)
    if is_listed(host, places.hosts) or _is_seen(host, places.seen):
        return address
    if is_holder and is_loopback(host):
        return TUNNEL
    raise Invalid(
        "gateway_address: HOST must be the address that the call comes from, "
        "or be in Containers.GatewayHosts"
    )


def _host_of(address: str) -> str:
    """The host of HOST:PORT, without the brackets of IPv6. Raises Invalid."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not FIRST_PORT <= int(port) < 65536:
        raise Invalid(
            "gateway_address: must be 'tunnel', "
            f"or HOST:PORT with a port from {FIRST_PORT} to 65535"
        )
    return host.strip("[]")


def is_listed(host: str, hosts: Iterable[str]) -> bool:
    """Whether a list of networks, addresses and names contains this host. An entry that is no
    network is a name.
    """
    address = parse(host)
    for one in hosts:
        try:
            network = ipaddress.ip_network(one, strict=False)
        except ValueError:
            if one.lower() == host.lower():
                return True
        else:
            if address is not None and address in network:
                return True
    return False


def is_loopback(host: str) -> bool:
    """Whether a host is the loopback address of its user."""
    address = parse(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_local(host: str) -> bool:
    """Whether an address is valid on one machine or link only: loopback, link-local (cloud
    metadata), unspecified, multicast.

    A host name is not an address: False.
    """
    address = parse(host)
    return address is not None and (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address in _METADATA
    )


def parse(host: str) -> _Address | None:
    """The address in a text, an IPv4 one also if written as IPv6; None for a name."""
    try:
        # Without the zone of a link-local address (RFC 4007).
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped) or address


_METADATA = ipaddress.ip_network("fd00:ec2::/32")
"""Amazon's instance services by IPv6; the IPv4 ones are link-local."""


def _is_seen(host: str, seen: str) -> bool:
    if not seen:
        return is_loopback(host)
    address = parse(host)
    return address is not None and address == parse(seen)


def _bare(url: str) -> str:
    return url.rstrip("/")

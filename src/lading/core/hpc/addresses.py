"""Addresses of the containers of an HPC cluster, and of the machines of a gang; IPv4 and IPv6.

The network of a gang has one IP version, that of the address by which the machines know the first
one. Source: docs/spec/hpc-daemon, section Parameters of the daemon.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lading.core.errors import Invalid

# Port of ssh (RFC 4251) where an address names none.
SSH_PORT = 22
# A host name: at most 254 characters.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
# The characters of an address with its zone; `ipaddress` decides whether it is one.
_IPV6 = re.compile(r"[0-9A-Fa-f:]{2,39}(?:[0-9.]{7,15})?(?:%[A-Za-z0-9._-]{1,15})?")
# `[ADDRESS]` or `[ADDRESS]:PORT` (RFC 3986, section 3.2.2).
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?")
# Ports are 16 bits.
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class SshdAddress:
    """Address and port of the sshd of a container."""

    host: str
    port: int = SSH_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_numeric(self) -> bool:
        """Whether it is an IP address and no name."""
        return ":" in self.host or self.host.replace(".", "").isdigit()


def parse_address(address: str) -> SshdAddress:
    """`10.0.0.1`, `10.0.0.1:2222`, `fd00::1`, `[fd00::1]:2222`, `name:22`. Raises Invalid."""
    bracketed = _BRACKETED.fullmatch(address)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
        fits = ":" in host and _IPV6.fullmatch(host) is not None
    elif address.count(":") > 1:
        host, port = address, None
        fits = _IPV6.fullmatch(host) is not None
    else:
        host, _, port = address.partition(":")
        fits = _NAME.fullmatch(host) is not None and (
            ":" not in address or re.fullmatch("[0-9]{1,5}", port) is not None
        )
    number = int(port) if fits and port else SSH_PORT
    if not fits or not 0 < number <= _LAST_PORT:
        raise Invalid(f"address {address[:60]!r} is not IP, IP:PORT or [IPV6]:PORT")
    return SshdAddress(host, number)


def machine_address(address: str) -> str:
    """A machine's IP address in its shortest form: without brackets, IPv4 inside IPv6 as IPv4.

    Raises Invalid for anything else, and for addresses that are valid on one link only (RFC 4291,
    2.5.6).
    """
    bare = address[1:-1] if address[:1] == "[" and address[-1:] == "]" else address
    try:
        ip = ipaddress.ip_address(bare)
    except ValueError as error:
        raise Invalid(f"{address[:60]!r} is not the IP address of a machine") from error
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    if ip.version == 6 and ip.is_link_local:
        raise Invalid(
            f"{ip} is an address for one link only: "
            "the machine needs another one for a gang over several"
        )
    return str(ip)


def ip_version(address: str) -> int:
    """IP version of an address, 4 or 6."""
    return 6 if ":" in address else 4


def common_version(addresses: Iterable[str]) -> int:
    """IP version of all addresses, of which there is at least one. Raises Invalid when both
    occur.
    """
    by_version = {ip_version(address): address for address in addresses}
    if len(by_version) > 1:
        raise Invalid(
            f"machines know the first one as {by_version[4]} and as {by_version[6]}: "
            "a gang needs one kind of address"
        )
    return next(iter(by_version))

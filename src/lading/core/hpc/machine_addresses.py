"""Addresses by which the machines of a gang reach each other.

The network of a gang has one IP version, that of the address by which the machines know the first
one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from lading.core.errors import Invalid


def machine_address(text: str) -> str:
    """A machine's IP address in its shortest form: without brackets, IPv4 inside IPv6 as IPv4.

    Raises Invalid for anything else, and for addresses that are valid on one link only (RFC 4291,
    2.5.6).
    """
    bare = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    try:
        found = ipaddress.ip_address(bare)
    except ValueError as error:
        raise Invalid(f"{text[:60]!r} is not the IP address of a machine") from error
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.version == 6 and found.is_link_local:
        raise Invalid(
            f"{found} is an address for one link only: "
            "the machine needs another one for a gang over several"
        )
    return str(found)


def version(address: str) -> int:
    """IP version of an address, 4 or 6."""
    return 6 if ":" in address else 4


def common_version(addresses: Iterable[str]) -> int:
    """IP version of all addresses, of which there is at least one. Raises Invalid when both
    occur.
    """
    found = {version(one): one for one in addresses}
    if len(found) > 1:
        raise Invalid(
            f"machines know the first one as {found[4]} and as {found[6]}: "
            "a gang needs one kind of address"
        )
    return next(iter(found))

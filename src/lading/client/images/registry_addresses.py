"""Addresses that a registry names: of its token service, and of blobs that are elsewhere.

A registry is a stranger. It must not lead the program to services of the machine that it runs on,
of its link or of its cloud, unless the registry is on the same machine. Names are looked up before
the connection: over TLS, a name that then resolves to another address has no certificate there.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from lading.core.containers.sessions import is_local
from lading.core.errors import Invalid

Lookup = Callable[[str], Awaitable[Iterable[str]]]
"""The addresses of a host. Raises OSError."""
# A name or an IPv4 address, or an IPv6 address without a zone.
_HOST = re.compile(r"(?=[^:]{1,253}(?::|$))[0-9a-z_-]{1,63}(?:\.[0-9a-z_-]{1,63})*\.?(:[0-9]+)?"
                   r"|\[[0-9a-f:.]+\](:[0-9]+)?", re.IGNORECASE)  # fmt: skip
_LONGEST = 16_384
"""Characters of an address; signed ones have some thousands."""
_SHOWN = 100


def shown(value: str) -> str:
    """A text of the registry as a part of a message."""
    return value[:_SHOWN] if value.isprintable() else repr(value[:_SHOWN])


def split_address(address: str, source: str) -> tuple[str, str]:
    """The origin `scheme://host:port` of an address, and its path with the query. Raises Invalid,
    naming the `source` that sends there, for other schemes, credentials and malformed hosts.
    """
    try:
        parts = urlsplit(address)
        is_sound = (
            parts.scheme in ("http", "https")
            and len(address) <= _LONGEST
            and _HOST.fullmatch(parts.netloc) is not None
            and parts.port != 0
            and all("!" <= character <= "~" for character in f"{parts.path}{parts.query}")
        )
    except ValueError:
        is_sound = False
    if not is_sound:
        raise Invalid(f"{source[:_SHOWN]}: sends to {address[:_SHOWN]!r}, which is no web address")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}", f"{parts.path or '/'}{query}"


async def look_up(host: str) -> list[str]:
    """The addresses of a host."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in entries]


async def check_origin(origin: str, registry: str, lookup: Lookup) -> None:
    """Check that a registry may lead to another origin. Raises Invalid for one of this machine, its
    link or its cloud, unless the registry is there itself.
    """
    if await _is_here(origin, lookup) and not await _is_here(registry, lookup):
        raise Invalid(
            f"{registry[:_SHOWN]}: sends to {origin[:_SHOWN]}, an address of this machine, its "
            "link or its cloud; refused"
        )


async def _is_here(origin: str, lookup: Lookup) -> bool:
    host = urlsplit(origin).hostname or ""
    try:
        addresses = await lookup(host)
    except (OSError, UnicodeError):
        # The error of the connection names the fault.
        addresses = ()
    return any(is_local(address) for address in (host, *addresses))

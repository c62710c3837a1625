"""Connections of a server to hosts that its users name: never to its own machine or inside network.

A name is looked up once for each connection. All its addresses are checked, and one of them is
connected to: a name server that answers twice in different ways gains nothing. Refused are the
addresses of the machine itself, its links, the metadata services of clouds and private networks,
unless they are in an allowed network. Source: docs/security, sections Transfers of tasks
and Webhooks.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from lading.core.containers.container_network import is_inside_address
from lading.core.errors import Forbidden, Unavailable
from lading.net.http_upgrade import ProtocolT, Way
from lading.net.name_lookup import NameLookup

Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Gives the addresses of a host. Raises OSError."""
_LOOKUP_TIMEOUT = 20.0
# Addresses of a name that are checked and tried.
_MOST_ADDRESSES = 32
# Seconds for one address, when there are others.
_EACH_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideNetwork:
    """Rules for connections to hosts that users name. `allowed`: networks that are not refused,
    such as `10.1.2.0/24`; `key`: the configuration key that has them.
    """

    allowed: tuple[str, ...] = ()
    key: str = "TES.AllowedNetworks"
    lookup: Lookup = field(default_factory=NameLookup)

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host, all of which may be connected to.

        Raises Forbidden when one of them may not, Unavailable when there are none.
        """
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT):
                addresses = await self.lookup(host, port)
        except (OSError, UnicodeError) as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            raise Unavailable(f"{host} cannot be looked up: {reason}") from error
        if not addresses:
            raise Unavailable(f"{host} has no address")
        for address in addresses[:_MOST_ADDRESSES]:
            if not self._is_allowed(address):
                raise Forbidden(
                    f"{host} leads to the server's own machine or to an inside network; "
                    f"ask the admin to add it to {self.key}"
                )
        return addresses[:_MOST_ADDRESSES]

    def _is_allowed(self, address: str) -> bool:
        # The zone of a link-local address.
        ip_address = ipaddress.ip_address(address.partition("%")[0])
        if any(ip_address in ipaddress.ip_network(network) for network in self.allowed):
            return True
        return not is_inside_address(ip_address) and not _is_own(address)

    async def create(
        self,
        make_protocol: Callable[[], ProtocolT],
        host: str,
        port: int,
        *,
        timeout: float,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Connect to a host. Raises Forbidden, Unavailable, OSError of the last address."""
        fault: OSError = OSError("no address")
        addresses = await self.addresses(host, port)
        each = timeout if len(addresses) == 1 else min(timeout, _EACH_TIMEOUT)
        server_name = host if tls is not None else None
        for address in addresses:
            try:
                async with asyncio.timeout(each):
                    return await asyncio.get_running_loop().create_connection(
                        make_protocol, address, port, ssl=tls, server_hostname=server_name
                    )
            except OSError as error:
                fault = error
        raise fault


class OutsideWay(Way, frozen=True, kw_only=True):
    """The way to a host that a user named."""

    network: OutsideNetwork

    async def create(
        self, make_protocol: Callable[[], ProtocolT], *, timeout: float
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Open a connection for a protocol of asyncio. Raises OSError, Forbidden, Unavailable."""
        return await self.network.create(
            make_protocol, self.host, self.port, timeout=timeout, tls=self.tls
        )


def _is_own(address: str) -> bool:
    """Whether an address is one of this machine: the kernel chooses it as the source of packets to
    itself. Nothing is sent.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            # No route to it: the connection will say so.
            return False
        return str(probe.getsockname()[0]) == address

"""Network of a container: its destinations, its packet filter, and its network files.

A container that asks for a network gets a network namespace of its own. It has a loopback
interface, an address for each service of the API, and for `internet` an interface with a packet
filter that refuses everything that is not the internet: this machine, link-local addresses, the
metadata services of clouds, and the configured networks. This module produces values and text;
`lading.supervisor.network` applies them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

import msgspec

from lading.core.errors import Invalid

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Ip = ipaddress.IPv4Address | ipaddress.IPv6Address

RESOLVER = "127.0.0.53"
"""Address of the resolver on the container's loopback interface; systemd-resolved uses the same."""
LOOPBACK = "127.0.0.1"
UPLINK = "198.19.255.0/24"
"""Network of the interface to the internet: part of the range for benchmarks (RFC 2544), which
sites do not use for machines.
"""
UPLINK_ADDRESS, UPLINK_GATEWAY = "198.19.255.100", "198.19.255.2"
"""Addresses of the container and of the gateway in that network; slirp4netns takes these ones by
itself.
"""
UPLINK_ADDRESS6, UPLINK_GATEWAY6 = "fd00::100", "fd00::2"
INTERFACE = "eth0"
TABLE = "lading"
NOT_INTERNET = (
    "0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4",
    "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "2001::/32", "2002::/16", "ff00::/8",
)  # fmt: skip
"""Addresses that the host would treat as its own, or as multicast, and the forms of IPv6 in which
an address of IPv4 travels: compatible, mapped, translated, Teredo, 6to4 (RFC 4291, 2765, 4380,
3056).
"""
METADATA = (
    "169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32",
    "fe80::/10", "fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128",
)  # fmt: skip
"""Link-local addresses, and addresses at which clouds offer credentials of a machine: EC2 and most
others, Azure, Alibaba, Oracle; by IPv6 EC2, Google, Oracle, Scaleway.
"""
PRIVATE = (
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24",
    "198.18.0.0/15", "64:ff9b:1::/48", "fc00::/7", "fec0::/10",
)  # fmt: skip
"""Networks of an organisation, of a provider's inside and of benchmarks (RFC 6890)."""
UPLINKS = (UPLINK, "fd00::/64")
"""Addresses on that interface, including the gateway, which is another address of the host."""
# IPv6 does not work without neighbour discovery (RFC 4861).
_NEIGHBOURS = ("nd-neighbor-solicit", "nd-neighbor-advert", "nd-router-solicit")
# The well-known prefix of NAT64 (RFC 6052).
_NAT64 = int(ipaddress.IPv6Address("64:ff9b::"))
_LOCALHOST = "localhost"
# ARVADOS_API_HOST without a port means HTTPS.
_DEFAULT_PORT = 443


class Endpoint(msgspec.Struct, frozen=True):
    """A service that the container reaches by this host (a name or an address) and port."""

    host: str
    port: int

    @property
    def address(self) -> Ip | None:
        """The address, when `host` is one."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None


def local_addresses(endpoints: Sequence[Endpoint]) -> dict[str, Ip]:
    """Address of each host inside the container's namespace: an address stays, a name gets its own
    loopback address.
    """
    found: dict[str, Ip] = {}
    for endpoint in endpoints:
        # A different address for each name, so that two services may have the same port.
        own = LOOPBACK if endpoint.host == _LOCALHOST else f"127.0.100.{len(found) + 1}"
        found.setdefault(endpoint.host, endpoint.address or ipaddress.ip_address(own))
    return found


def places(endpoints: Sequence[Endpoint]) -> dict[tuple[Ip, int], Endpoint]:
    """Endpoint of each local address and port; the first one when two coincide."""
    local = local_addresses(endpoints)
    found: dict[tuple[Ip, int], Endpoint] = {}
    for endpoint in endpoints:
        found.setdefault((local[endpoint.host], endpoint.port), endpoint)
        if endpoint.host == _LOCALHOST:
            found.setdefault((ipaddress.IPv6Address("::1"), endpoint.port), endpoint)
    return found


def read_endpoint(address: str) -> Endpoint:
    """Parse HOST, HOST:PORT or [IPV6]:PORT, the forms of ARVADOS_API_HOST. Raises Invalid."""
    host, separator, port = address.rpartition(":")
    if not separator or address.endswith("]"):
        host, port = address, str(_DEFAULT_PORT)
    host = host.strip("[]")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise Invalid(f"{address!r} is not HOST:PORT; containers cannot be given a way there")
    return Endpoint(host.lower(), int(port))


def read_networks(texts: Iterable[str], *, key: str) -> tuple[str, ...]:
    """Networks or addresses of a configuration `key`, in canonical form. Raises Invalid."""
    networks = []
    for network in texts:
        try:
            networks.append(str(ipaddress.ip_network(network.strip())))
        except ValueError as error:
            raise Invalid(
                f"configuration: {key}: {error}; write networks such as 10.0.0.0/8 or fd00::/8"
            ) from error
    return tuple(networks)


def refusals(configured: Sequence[str]) -> tuple[str, ...]:
    """All networks that are always refused, each IPv4 one also in its NAT64 translation."""
    networks = [
        ipaddress.ip_network(network)
        for network in (*NOT_INTERNET, *METADATA, *UPLINKS, *configured)
    ]
    translated = [
        _nat64(network) for network in networks if isinstance(network, ipaddress.IPv4Network)
    ]
    return tuple(str(network) for network in (*networks, *translated))


def with_translations(networks: Iterable[str]) -> tuple[str, ...]:
    """The networks, each IPv4 one also in its NAT64 translation."""
    parsed = [ipaddress.ip_network(network) for network in networks]
    translated = [
        _nat64(network) for network in parsed if isinstance(network, ipaddress.IPv4Network)
    ]
    return tuple(str(network) for network in (*parsed, *translated))


def is_local_address(address: Ip) -> bool:
    """Whether an address is one of the machine that connects to it, of its link, or of the metadata
    services of its cloud; also in its NAT64 translation or mapped to IPv6.
    """
    return any(address in network for network in _LOCAL)


def is_inside_address(address: Ip) -> bool:
    """Whether an address is a local one (`is_local_address`) or of a private network."""
    return is_local_address(address) or any(address in network for network in _PRIVATE)


def ruleset(refused: Iterable[str], own: Iterable[str]) -> str:
    """The packet filter of the namespace for `nft -f -`: packets that leave by another interface
    than the loopback are refused for the given networks. `own`: networks of the machine, which may
    change (`update`).
    """
    families = _by_family(refused)
    return "\n".join(
        [
            f"table inet {TABLE} {{",
            *(_set(f"refused{number}", number, families[number]) for number in (4, 6)),
            *(_set(f"own{number}", number, members) for number, members in _by_family(own).items()),
            "  chain out {",
            "    type filter hook output priority 0; policy accept;",
            '    oifname "lo" accept',
            f"    icmpv6 type {{ {', '.join(_NEIGHBOURS)} }} accept",
            *(
                f"    {protocol} daddr @{name}{number} reject with icmpx type admin-prohibited"
                for number, protocol in ((4, "ip"), (6, "ip6"))
                for name in ("refused", "own")
            ),
            "  }",
            "  chain in {",
            # No packets from outside reach the container, except responses.
            "    type filter hook input priority 0; policy drop;",
            '    iifname "lo" accept',
            "    ct state established,related accept",
            "    meta l4proto ipv6-icmp accept",
            "  }",
            "}",
            "",
        ]
    )


def update(own: Iterable[str]) -> str:
    """Commands that replace the networks of the machine in the filter."""
    lines = []
    for number, members in _by_family(own).items():
        lines.append(f"flush set inet {TABLE} own{number}")
        if members:
            lines.append(f"add element inet {TABLE} own{number} {{ {', '.join(members)} }}")
    return "\n".join([*lines, ""])


def hosts_file(endpoints: Sequence[Endpoint], *, hostname: str, machine: str = "") -> str:
    """Contents of /etc/hosts. `machine`: the host's file, whose names of other machines are
    kept.
    """
    local = local_addresses(endpoints)
    names = [
        endpoint.host
        for endpoint in endpoints
        if endpoint.address is None and endpoint.host != _LOCALHOST
    ]
    lines = [f"{LOOPBACK}\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines += [
        f"{LOOPBACK}\t{hostname}",
        *(f"{local[name]}\t{name}" for name in dict.fromkeys(names)),
    ]
    for line in machine.splitlines():
        # 32 names of a line at most: the C library reads no endless lines.
        address, *others = line.partition("#")[0].split()[:32] or [""]
        if others and _is_elsewhere(address):
            kept = [name for name in others if name.lower() not in names]
            lines += [f"{address}\t{' '.join(kept)}"] if kept else []
    return "\n".join([*lines, ""])


def resolver_file(machine: str, *, internet: bool) -> str:
    """Contents of /etc/resolv.conf. `machine`: the host's file, whose search list is kept."""
    if not internet:
        return "# No names but those of /etc/hosts.\n"
    kept = [line for line in machine.splitlines() if line.split()[:1] in (["search"], ["domain"])]
    return "\n".join([*kept, f"nameserver {RESOLVER}", ""])


def nameservers(resolv_conf: str) -> tuple[str, ...]:
    """Addresses of the resolvers in a resolv.conf; the loopback address when there are none
    (resolv.conf(5)).
    """
    rows = [line.split() for line in resolv_conf.splitlines()]
    found = tuple(row[1] for row in rows if len(row) > 1 and row[0] == "nameserver")
    return found or (LOOPBACK,)


def _is_elsewhere(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast)


def _nat64(network: ipaddress.IPv4Network) -> ipaddress.IPv6Network:
    return ipaddress.IPv6Network((_NAT64 + int(network.network_address), 96 + network.prefixlen))


def _by_family(networks: Iterable[str]) -> dict[int, list[str]]:
    """The networks of each IP version, without overlaps, which nft refuses."""
    four, six = [], []
    for notation in networks:
        network = ipaddress.ip_network(notation)
        if isinstance(network, ipaddress.IPv4Network):
            four.append(network)
        else:
            six.append(network)
    return {
        4: [str(network) for network in ipaddress.collapse_addresses(four)],
        6: [str(network) for network in ipaddress.collapse_addresses(six)],
    }


def _set(name: str, number: int, networks: Sequence[str]) -> str:
    elements = f" elements = {{ {', '.join(networks)} }};" if networks else ""
    return f"  set {name} {{ type ipv{number}_addr; flags interval;{elements} }}"


_PRIVATE = tuple(ipaddress.ip_network(network) for network in with_translations(PRIVATE))
_LOCAL = tuple(
    ipaddress.ip_network(network) for network in with_translations((*NOT_INTERNET, *METADATA))
)

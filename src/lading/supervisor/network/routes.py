"""Routes of this machine and of a namespace, by rtnetlink(7).

A few messages take microseconds where a program such as `ip` takes milliseconds.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from lading.core.containers.container_network import Ip

# Numbers of linux/rtnetlink.h, linux/netlink.h and linux/if.h.
_RTM_NEWLINK, _RTM_NEWROUTE, _RTM_GETROUTE = 16, 24, 26
# Flags and types of messages (netlink(7)), attributes and values of routes (rtnetlink(7)).
_NLM_REQUEST, _NLM_ACK, _NLM_DUMP, _NLM_CREATE = 1, 4, 0x300, 0x400
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_UNICAST, _RTN_LOCAL = 255, 3, 254, 1, 2
# Local, RTN_BROADCAST and RTN_ANYCAST routes.
_MEANING_SELF = (_RTN_LOCAL, 3, 4)
_SOL_NETLINK, _NETLINK_GET_STRICT_CHK = 270, 12
_IFF_UP = 1
# Index in every network namespace.
_LOOPBACK_INDEX = 1
# RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE and those of IPv6.
_GROUPS = 0x10 | 0x40 | 0x100 | 0x400
# Bytes of one read; the kernel's dumps use at most 32 KiB.
_ROOM = 1 << 16
# Seconds for the kernel's answer.
_TIMEOUT = 5.0
# struct nlmsghdr, rtmsg, ifinfomsg and rtattr.
_HEADER = struct.Struct("=IHHII")
_ROUTE = struct.Struct("=BBBBBBBBI")
_LINK = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def watch() -> socket.socket:
    """A socket that becomes readable when addresses or routes change. Raises OSError."""
    monitor = _socket(socket.SOCK_NONBLOCK)
    try:
        monitor.bind((0, _GROUPS))
    except OSError:
        monitor.close()
        raise
    return monitor


def drain(watching: socket.socket) -> None:
    """Read and drop all notifications."""
    try:
        while watching.recv(_ROOM):
            pass
    except BlockingIOError:
        # All notifications are read.
        return
    except OSError:
        # Notifications were lost (ENOBUFS, netlink(7)); the caller reads the whole state anyway.
        return


def own_networks() -> tuple[str, ...]:
    """Addresses of this machine, and the networks of bridges without a network card: those of other
    containers and VMs. Raises OSError.
    """
    networks = [network for kind in _MEANING_SELF for network in _destinations(kind)]
    networks += [
        network for bridge in _inner_bridges() for network in _destinations(_RTN_UNICAST, bridge)
    ]
    return tuple(dict.fromkeys(networks))


def bring_loopback_up() -> None:
    """Bring up the loopback interface in the namespace of this thread. Raises OSError."""
    body = _LINK.pack(socket.AF_UNSPEC, 0, _LOOPBACK_INDEX, _IFF_UP, _IFF_UP)
    _order(_RTM_NEWLINK, body)


def own(address: Ip) -> None:
    """Make an address local in the namespace of this thread. Raises OSError."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    body = _ROUTE.pack(
        family,
        address.max_prefixlen,
        0,
        0,
        _RT_TABLE_LOCAL,
        _RTPROT_BOOT,
        _RT_SCOPE_HOST,
        _RTN_LOCAL,
        0,
    )
    body += _attribute(_RTA_DST, address.packed)
    body += _attribute(_RTA_OIF, struct.pack("=i", _LOOPBACK_INDEX))
    _order(_RTM_NEWROUTE, body, _NLM_CREATE)


def _inner_bridges() -> set[int]:
    """Indexes of bridges without a network card."""
    indexes = set()
    for bridge in Path("/sys/class/net").glob("*/bridge"):
        device = bridge.parent
        try:
            # A network card has a device; virtual interfaces do not.
            ports = [port.name for port in (device / "brif").iterdir()]
            if not any((device.parent / name / "device").exists() for name in ports):
                indexes.add(socket.if_nametoindex(device.name))
        except OSError:
            # It was removed meanwhile, or is a file of another kernel.
            continue
    return indexes


def _destinations(kind: int, interface: int = 0) -> Iterator[str]:
    """Destinations of all routes of a kind, in all tables; through an `interface` only those
    without a gateway.

    The kernel filters: a router may have a million others.
    """
    for family in _FAMILIES:
        with _socket() as asking:
            # Without it the kernel ignores the fields of the question and sends everything.
            asking.setsockopt(_SOL_NETLINK, _NETLINK_GET_STRICT_CHK, 1)
            body = _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, kind, 0)
            body += _attribute(_RTA_OIF, struct.pack("=i", interface)) if interface else b""
            asking.send(_message(_RTM_GETROUTE, body, _NLM_DUMP))
            yield from (one for content in _answers(asking) if (one := _read(content)) is not None)


def _read(content: bytes) -> str | None:
    """The destination of a route; None for a default route or one with a gateway."""
    family, length, *_ = _ROUTE.unpack_from(content)
    attributes = dict(_attributes(content[_ROUTE.size :]))
    if not length or _RTA_GATEWAY in attributes:
        return None
    size = 4 if family == socket.AF_INET else 16
    # A route without destination attribute is for the zero network.
    address = ipaddress.ip_address(attributes.get(_RTA_DST, bytes(size)))
    return str(ipaddress.ip_network((address, length), strict=False))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[_ATTRIBUTE.size : length]
        data = data[_aligned(length) :]


def _attribute(kind: int, value: bytes) -> bytes:
    made = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value
    return made + bytes(_aligned(len(made)) - len(made))


def _order(kind: int, body: bytes, flags: int = 0) -> None:
    with _socket() as asking:
        asking.send(_message(kind, body, _NLM_ACK | flags))
        for _ in _answers(asking):
            pass


def _message(kind: int, body: bytes, flags: int) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, _NLM_REQUEST | flags, 1, 0) + body


def _answers(asking: socket.socket) -> Iterator[bytes]:
    """Contents of the messages up to the end of the answer. Raises OSError for a refusal."""
    while True:
        data = asking.recv(_ROOM)
        while len(data) >= _HEADER.size:
            length, kind, _, _, _ = _HEADER.unpack_from(data)
            content = data[_HEADER.size : length]
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                number = -int(struct.unpack_from("=i", content)[0])
                if number:
                    raise OSError(number, os.strerror(number), "rtnetlink")
                return
            yield content
            data = data[_aligned(length) :]


# Messages and attributes are padded to four bytes (netlink(3)).
def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _socket(more: int = 0) -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | more
    made = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
    made.settimeout(0.0 if more else _TIMEOUT)
    return made

"""Listening sockets of a port, from the kernel's tables /proc/PID/net/tcp and tcp6 (proc(5)).

A connection to a loopback address goes to a listener on exactly that address, and only without one,
to listeners on all addresses. Containers that share the machine's network must get their own
connections only, so all sockets that may accept one have to be theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# TCP_LISTEN of the kernel.
_LISTEN = "0A"
_ALL = "00000000"
_LOOPBACK = "0100007F"
_ALL6 = "0" * 32
_LOOPBACK6 = "00000000000000000000000001000000"
_MAPPED = "0000000000000000FFFF0000"
"""::ffff:0:0/96 in the kernel's notation: words of four bytes in host byte order."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Address to connect to, and the inodes of all sockets that may accept the connection."""

    host: str
    inodes: frozenset[int]


def find_listeners(tcp: str, tcp6: str, port: int) -> Listeners | None:
    """Listeners for a connection to a port of this machine's loopback interface; None without
    any.
    """
    four = dict.fromkeys(_rows(tcp, port))
    six = dict.fromkeys(_rows(tcp6, port))
    mapped = [
        (address.removeprefix(_MAPPED), inode)
        for address, inode in six
        if address.startswith(_MAPPED)
    ]
    for wanted in (
        [inode for address, inode in (*four, *mapped) if address == _LOOPBACK],
        [
            *(inode for address, inode in (*four, *mapped) if address == _ALL),
            *(inode for address, inode in six if address == _ALL6),
        ],
    ):
        if wanted:
            return Listeners("127.0.0.1", frozenset(wanted))
    alone = [inode for address, inode in six if address == _LOOPBACK6]
    return Listeners("::1", frozenset(alone)) if alone else None


def _rows(table: str, port: int) -> Iterator[tuple[str, int]]:
    """Address and inode of the sockets that listen on the port."""
    for line in table.split("\n")[1:]:
        parts = line.split()
        if len(parts) > 9 and parts[3] == _LISTEN:
            address, _, number = parts[1].partition(":")
            if int(number, 16) == port:
                yield address.upper(), int(parts[9])

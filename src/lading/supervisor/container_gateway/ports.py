"""Connections to ports of one container, and of no other.

A container has its own network namespace, in which the socket is made, or shares the machine's. In
the latter case only sockets of its processes may accept the connection; this is checked before and
after connecting, by the kernel's tables /proc/PID/net/tcp and tcp6 (proc(5)). A connection to a
loopback address goes to a listener on exactly that address, and only without one, to listeners on
all addresses. So all sockets that may accept it have to be the container's.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lading.core.errors import NotFound, Unavailable

# Of linux/sched.h.
_CLONE_NEWNET = 0x40000000
# Seconds to connect.
_TIMEOUT = 20.0
_libc = ctypes.CDLL(None, use_errno=True)
# TCP_LISTEN of the kernel.
_LISTEN = "0A"
_ALL = "00000000"
_LOOPBACK = "0100007F"
# The unspecified address in /proc/net/tcp6: listeners on all addresses.
_ALL6 = "0" * 32
_LOOPBACK6 = "00000000000000000000000001000000"
# ::ffff:0:0/96 in the kernel's notation: words of four bytes in host byte order.
_MAPPED = "0000000000000000FFFF0000"


async def connect(first: int, port: int) -> socket.socket:
    """Connect to a port of the container whose first process is `first`.

    Raises NotFound when nothing of the container listens there, Unavailable when the container
    cannot be reached.
    """
    try:
        shared = _same(first, "net")
        listeners = await asyncio.to_thread(_find, first, port, shared)
        connection = await asyncio.to_thread(_make_socket, first, listeners.host, shared)
    except OSError as error:
        raise Unavailable(
            f"the network of the container cannot be entered: {error.strerror}"
        ) from error
    try:
        async with asyncio.timeout(_TIMEOUT):
            await asyncio.get_running_loop().sock_connect(connection, (listeners.host, port))
        # Another process may have taken the port between the check and the connection.
        if shared and await asyncio.to_thread(_find, first, port, shared) != listeners:
            raise NotFound(f"port {port}: nothing of this container listens there")
    except (OSError, TimeoutError) as error:
        connection.close()
        raise NotFound(
            f"port {port} of the container: {str(error) or 'no answer in time'}"
        ) from error
    except BaseException:
        # Cancelled: the client has gone.
        connection.close()
        raise
    return connection


def _find(first: int, port: int, shared: bool) -> Listeners:
    """The listeners of a port. Raises NotFound when one may belong to another container."""
    tables = [Path(f"/proc/{first}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    found = find_listeners(tables[0], tables[1], port)
    if found is None or (shared and not found.inodes <= _sockets_of(first)):
        raise NotFound(f"port {port}: nothing of this container listens there")
    return found


def _sockets_of(first: int) -> set[int]:
    """Inodes of the sockets of all processes in the container."""
    space = _link(f"/proc/{first}/ns/pid")
    # Without a pid namespace of its own its processes look like all others.
    if space == _link("/proc/self/ns/pid"):
        return set()
    inodes: set[int] = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if _link(process / "ns/pid") == space:
                links = [_link(descriptor) for descriptor in (process / "fd").iterdir()]
                # "socket:[INODE]" (proc_pid_fd(5)).
                inodes |= {int(link[8:-1]) for link in links if link.startswith("socket:[")}
        except OSError:
            # The process has ended, or belongs to another user.
            continue
    return inodes


def _link(path: str | Path) -> str:
    return str(Path(path).readlink())


def _same(first: int, kind: str) -> bool:
    return _link(f"/proc/{first}/ns/{kind}") == _link(f"/proc/self/ns/{kind}")


def _make_socket(first: int, host: str, shared: bool) -> socket.socket:
    """Make a socket in the network namespace of a process."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    results: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            if not shared:
                _enter_network(first)
            results.append(
                socket.socket(
                    family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
                )
            )
        except OSError as error:
            results.append(error)

    # setns(2) applies to one thread; a thread in another network namespace must not be used again.
    thread = threading.Thread(target=make, name="container network")
    thread.start()
    thread.join()
    if isinstance(results[0], OSError):
        raise results[0]
    return results[0]


def _enter_network(first: int) -> None:
    descriptor = os.open(f"/proc/{first}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


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
    for candidates in (
        [inode for address, inode in (*four, *mapped) if address == _LOOPBACK],
        [
            *(inode for address, inode in (*four, *mapped) if address == _ALL),
            *(inode for address, inode in six if address == _ALL6),
        ],
    ):
        if candidates:
            return Listeners("127.0.0.1", frozenset(candidates))
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

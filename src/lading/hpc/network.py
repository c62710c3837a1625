"""The private network of a cluster: on each machine a namespace with a bridge and links.

If a cluster is on several machines, VXLAN joins the bridges. Its packets go between the addresses
of the machines by UDP, IPv4 or IPv6. So the containers have the same addresses, and reach each
other in the same way, on all machines. Forwarding entries are written, not learned, since each
machine may have another port.

All devices are in the private namespace of the conductor, so that addresses never collide with
those of the machine or of another cluster, and the devices vanish with the last process in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from lading.core.errors import ExecutionError, Failure

BRIDGE = "lading0"
_EVERYBODY = "00:00:00:00:00:00"
# The last two bytes of the conductor's hardware address; ranks have their number.
_CONDUCTOR = 0xFFFF
# Bytes of a packet that a wire takes whole, also where machines are in a tunnel themselves: VXLAN
# puts 50 around it by IPv4, 70 by IPv6.
_ROOM = 1380
_OWN = "10.77.255.254/16"
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
# linux/sched.h.
_CLONE_NEWNET = 0x40000000
# Seconds for `ip`.
_TIMEOUT = 60.0


def address(rank: int) -> str:
    """The address of a rank."""
    return f"10.77.{rank // 250}.{rank % 250 + 1}"


def cable(rank: int) -> str:
    """Name of the bridge's end of a rank's veth pair. Setting it down disconnects the rank."""
    return f"rank{rank}"


def hardware(rank: int) -> str:
    """The hardware address of a rank's end of its veth pair."""
    return f"02:4c:44:00:{rank >> 8:02x}:{rank & 255:02x}"


@dataclass(frozen=True, slots=True)
class Wire:
    """This machine's end of a VXLAN link: a device, its UDP port, and IP's version (4 or 6)."""

    name: str
    port: int
    version: int = 4


def make_wire(number: int, version: int = 4) -> Wire:
    """Make an end of the VXLAN link with this number in the machine's own network; `take_wire`
    moves it.

    Raises OSError, subprocess.CalledProcessError.
    """
    with socket.socket(FAMILIES[version], socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    wire = Wire(f"lw{version}p{os.getpid()}", port, version)
    # Without a peer that all is sent to: its kind alone makes the device one of IPv6.
    options = (
        f"type vxlan id {number} dstport {port} nolearning{' remote ::' if version == 6 else ''}"
    )
    subprocess.run(
        ["ip", "link", "add", wire.name, *options.split()],
        check=True,
        capture_output=True,
        timeout=_TIMEOUT,
    )
    return wire


def make_wires(number: int) -> tuple[Wire, ...]:
    """Make an end for each version of IP that this machine has; only one will be used, but the port
    must be known first.

    Raises OSError, subprocess.CalledProcessError.
    """
    wires = [make_wire(number)]
    # A machine without IPv6.
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        wires.append(make_wire(number, 6))
    return tuple(wires)


def take_wire(wire: Wire) -> None:
    """Move the end from the network namespace of the parent process to this one. Raises OSError,
    subprocess.CalledProcessError.
    """
    move = ["ip", "link", "set", wire.name, "netns", str(os.getpid())]
    command = ["nsenter", f"--net=/proc/{os.getppid()}/ns/net", *move]
    subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT)


async def tell_peers(wire: Wire, *, own: int, peers: Sequence[Sequence[object]]) -> None:
    """Write the forwarding entries. `peers`: rank, address and port of each machine.

    Raises ExecutionError.
    """
    lines = []
    for rank, host, port in peers:
        if rank != own:
            addresses = [_EVERYBODY, hardware(int(str(rank)))]
            addresses += [hardware(_CONDUCTOR)] if rank == 0 else []
            lines += [
                f"fdb append {address} dev {wire.name} dst {host} port {port}"
                for address in addresses
            ]
    await _ip(lines, program="bridge")


def leave_network() -> None:
    """Move this process to a new network namespace. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "network namespace")


def enter_network(path: str) -> None:
    """Move this thread to an existing network namespace. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)


async def make_bridge(wire: Wire | None = None, *, alone: bool = False) -> None:
    """Make the bridge, with this process on it unless it is to be `alone`, and a wire. Raises
    ExecutionError.
    """
    known = "" if alone else f"address {hardware(_CONDUCTOR)} "
    lines = [f"link add {BRIDGE} {known}type bridge"]
    if wire is not None:
        lines.append(f"link set {wire.name} mtu {_ROOM} master {BRIDGE} up")
    if not alone:
        lines.append(f"addr add {_OWN} dev {BRIDGE}")
    await _ip([*lines, f"link set {BRIDGE} up", "link set lo up"])


async def connect(rank: int, pid: int, *, spread: bool = False) -> None:
    """Connect the container of the process `pid` to the bridge (veth pair). Raises ExecutionError.

    `spread`: its packets must fit into those of the VXLAN link.
    """
    name = cable(rank)
    await _ip(
        [
            f"link add {name} type veth peer name eth0 netns {pid}",
            f"link set {name} master {BRIDGE} up",
        ]
    )
    inside = [f"link set eth0 address {hardware(rank)}{f' mtu {_ROOM}' if spread else ''}"]
    inside += [f"addr add {address(rank)}/16 dev eth0", "link set eth0 up", "link set lo up"]
    await _ip(inside, "nsenter", "--net", f"--target={pid}")


async def _ip(lines: list[str], *before: str, program: str = "ip") -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *before,
            program,
            "-batch",
            "-",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(_TIMEOUT):
            _, fault = await process.communicate("\n".join([*lines, ""]).encode())
    except OSError as error:
        raise ExecutionError(
            f"ip cannot be run ({error}); install the package iproute2", Failure.NODE
        ) from error
    if process.returncode != 0:
        words = " ".join(fault.decode(errors="replace").split())
        raise ExecutionError(f"the network of the cluster cannot be made: {words}", Failure.NODE)

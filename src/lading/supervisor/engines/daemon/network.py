"""The network namespace of a daemon's container: that of a second container, which only waits.

A daemon makes the namespace of a container when its command starts, which is too late to connect
it. So a container without network is started first and connected, and the user's container joins
its namespace (`container:NAME`). Its program is a few machine instructions, mounted into the same
image, whose contents are unknown.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import aiodocker

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Bind, NetworkAccess
from lading.supervisor.engines.bundle import HOSTNAME
from lading.supervisor.network.container_network import ContainerNetwork

# Name of the program in the container; unlikely to exist in an image.
_ENTRY = "/.lading-network"
# nobody:nogroup.
_NOBODY = "65534:65534"
# Bytes; daemons refuse much smaller limits.
_RAM = 16 << 20
# The program starts no process. But a daemon's runtime (runc, a program of Go) is in its control
# group before it, with 5 to 7 threads on two processors and more on larger machines.
_PROCESSES = 1024
_DIRECTORY = "network"
# Endless calls of pause(2), or of ppoll(2) where there is no pause.
_CODE = {
    # ELF machine number and code: mov eax, 34; syscall; jmp to the start.
    "x86_64": (62, bytes.fromhex("b822000000" "0f05" "ebf7")),
    "aarch64": (
        183,
        struct.pack(
            "<8I", 0xD2800000, 0xD2800001, 0xD2800002, 0xD2800003,
            0xD2800004, 0xD2800928, 0xD4000001, 0x17FFFFF9,
        ),
    ),
}  # fmt: skip
# Usual load address of a static program.
_BASE = 0x400000
# Elf64_Ehdr and Elf64_Phdr (elf(5)).
_HEADER, _SEGMENT = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")


class DockerNetwork:
    """The network of one container of a daemon, held by another container with this name."""

    def __init__(self, name: str, reach: NetworkAccess, run: Path) -> None:
        self._name = name
        self._directory = run / _DIRECTORY
        self._network = ContainerNetwork(reach, self._directory, hostname=HOSTNAME)

    @property
    def mode(self) -> str:
        """Network mode of the user's container."""
        return f"container:{self._name}"

    def binds(self) -> tuple[Bind, ...]:
        """Files about the network for the container. Raises OSError, ExecutionError."""
        return self._network.binds()

    async def open(self, docker: aiodocker.Docker, image: str) -> None:
        """Start the waiting container and connect it. Raises ExecutionError, DockerError,
        OSError.
        """
        program = self._directory / "wait"
        program.write_bytes(waiting_program(os.uname().machine))
        program.chmod(0o755)
        made = await docker.containers.create(make_config(image, str(program)), name=self._name)
        await made.start()
        pid = int((await made.show())["State"].get("Pid") or 0)
        if not pid:
            raise ExecutionError("the container that has the network does not run", Failure.NODE)
        await self._network.open(pid)

    async def close(self) -> None:
        """Disconnect it. Idempotent."""
        await self._network.close()


def make_config(image: str, program: str) -> dict[str, Any]:
    """Configuration of the waiting container for the daemon."""
    return {
        "Image": image,
        "Entrypoint": [_ENTRY],
        "Cmd": [],
        "User": _NOBODY,
        "WorkingDir": "/",
        "Hostname": HOSTNAME,
        "HostConfig": {
            "Mounts": [{"Type": "bind", "Source": program, "Target": _ENTRY, "ReadOnly": True}],
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "Memory": _RAM,
            "MemorySwap": _RAM,
            "PidsLimit": _PROCESSES,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": {"Type": "none"},
        },
    }


def waiting_program(machine: str) -> bytes:
    """An ELF program that waits until it is killed. Raises ExecutionError for other machines."""
    if machine not in _CODE:
        known = ", ".join(_CODE)
        raise ExecutionError(
            f"containers of a daemon have a network on {known} only, not on {machine};"
            " use the native engine",
            Failure.NODE,
        )
    kind, code = _CODE[machine]
    at = _HEADER.size + _SEGMENT.size
    # ELF, 64 bits, little-endian, version 1.
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = _HEADER.pack(
        identity,
        2,
        kind,
        1,
        _BASE + at,
        _HEADER.size,
        0,
        0,
        _HEADER.size,
        _SEGMENT.size,
        1,
        0,
        0,
        0,
    )
    size = at + len(code)
    # One segment: PT_LOAD, readable and executable.
    return header + _SEGMENT.pack(1, 5, 0, _BASE, _BASE, size, size, 0x1000) + code

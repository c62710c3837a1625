"""Connections to ports of a container: into its own network, or to sockets of its own processes on
the machine's.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lading.core.errors import NotFound, Unavailable
from lading.supervisor.container_gateway import ports
from tests.reality import need_program, need_root

SERVE = (
    "import socket,sys\n"
    "six=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET\n"
    "s=socket.create_server((sys.argv[1],int(sys.argv[2])),family=six)\n"
    "print(s.getsockname()[1],flush=True)\n"
    "while True:\n c,_=s.accept(); c.sendall(b'from inside'); c.close()\n"
)
LOOPBACK_UP = (
    "import fcntl,socket,struct; "
    "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 1))\n"
)


@contextmanager
def inside(*namespaces: str, host: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[int, int]]:
    """A process in namespaces of its own that serves a port: its number on this machine, and the
    port.
    """
    need_root()
    need_program("unshare")
    script = (LOOPBACK_UP if "--net" in namespaces else "") + SERVE
    command = [
        "unshare",
        "--fork",
        "--kill-child",
        *namespaces,
        sys.executable,
        "-c",
        script,
        host,
        str(port),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            number = int(process.stdout.readline())
            children = f"/proc/{process.pid}/task/{process.pid}/children"
            with open(children, encoding="ascii") as listed:
                yield int(listed.read()), number
        finally:
            process.kill()


async def read(first: int, port: int) -> bytes:
    made = await ports.connect(first, port)
    with made:
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(made, 100), 20)


async def test_a_port_in_a_network_of_its_own() -> None:
    with inside("--net", "--pid", port=8000) as (first, port):
        assert await read(first, port) == b"from inside"
        with pytest.raises(NotFound, match="nothing of this container"):
            await ports.connect(first, port + 1)
    with inside("--net", "--pid", host="::1") as (first, port):
        assert await read(first, port) == b"from inside"


async def test_a_port_of_its_own_in_the_network_of_the_machine() -> None:
    with inside("--pid") as (first, port):
        assert await read(first, port) == b"from inside"


async def test_a_port_of_another_container_is_refused() -> None:
    refused = pytest.raises(NotFound, match="nothing of this container")
    with inside("--pid") as (first, _), inside("--pid") as (_, other), refused:
        await ports.connect(first, other)


async def test_a_port_of_the_machine_is_refused() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, inside("--pid") as (first, _), inside("--net", "--pid") as (apart, _):
        for one in (first, apart, os.getpid()):
            with pytest.raises(NotFound, match="nothing of this container"):
                await ports.connect(one, server.getsockname()[1])


async def test_nothing_runs() -> None:
    with pytest.raises(Unavailable, match="cannot be entered"):
        await ports.connect(2**22 + 1, 80)

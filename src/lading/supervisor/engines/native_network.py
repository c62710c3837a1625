"""When the native engine's containers are connected: crun has made the namespace, and waits.

A hook of crun's (createRuntime) writes the container's state to a pipe; its first process is then
in all its namespaces, whoever owns them, and does not go on before the gate is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import msgspec

from lading import confined
from lading.core.errors import ExecutionError, Failure
from lading.supervisor import linux
from lading.supervisor.engines import Bind, Reach
from lading.supervisor.engines.bundle import HOSTNAME
from lading.supervisor.network.container_network import ContainerNetwork

DIRECTORY = "network"
"""Of the run directory."""
_TIMEOUT = 60.0
_MOST_BYTES = 1 << 16


class NativeNetwork:
    """The network of one container that crun makes."""

    def __init__(self, reach: Reach, run: Path) -> None:
        self._network = ContainerNetwork(reach, run / DIRECTORY, hostname=HOSTNAME)
        self._directory = run / DIRECTORY
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    @property
    def notice(self) -> str:
        """Where the hook writes the state of the container."""
        return f"/proc/{os.getpid()}/fd/{self._writing}"

    def binds(self) -> tuple[Bind, ...]:
        """The files that the container sees. Raises OSError, ExecutionError."""
        return self._network.binds()

    async def connect(self, runtime: int) -> None:
        """Connect the container that the process `runtime` makes. When that ends first it has
        failed, and says why elsewhere. Raises ExecutionError."""
        told = asyncio.create_task(self._read_state())
        ending = asyncio.create_task(linux.ended(runtime))
        try:
            await asyncio.wait(
                (told, ending), return_when=asyncio.FIRST_COMPLETED, timeout=_TIMEOUT
            )
            if told.done():
                await self._network.open(told.result())
            elif not ending.done():
                raise ExecutionError("crun does not make the container in time", Failure.NODE)
        finally:
            for task in (told, ending):
                task.cancel()
            await asyncio.gather(told, ending, return_exceptions=True)

    async def reconnect(self, pid: int) -> None:
        """Connect another container in its place, by its first process. Raises ExecutionError."""
        await self._network.close()
        await self._network.open(pid)

    async def close(self) -> None:
        """Disconnect it, remove the files. Idempotent."""
        await self._network.close()
        for end in (self._reading, self._writing):
            if end >= 0:
                os.close(end)
        self._reading = self._writing = -1
        confined.remove(self._directory)

    async def _read_state(self) -> int:
        """The number of the container's first process."""
        loop, readable, said = asyncio.get_running_loop(), asyncio.Event(), b""
        loop.add_reader(self._reading, readable.set)
        try:
            while len(said) < _MOST_BYTES:
                await readable.wait()
                readable.clear()
                with contextlib.suppress(BlockingIOError):
                    said += os.read(self._reading, _MOST_BYTES)
                with contextlib.suppress(msgspec.DecodeError):
                    return msgspec.json.decode(said, type=_State).pid
        finally:
            loop.remove_reader(self._reading)
        raise ExecutionError("crun says too much of the container", Failure.NODE)


class _State(msgspec.Struct):
    """Of what crun says (OCI runtime specification, State)."""

    pid: int

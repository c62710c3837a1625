"""Connects containers of the native engine to their network after crun has made the namespace.

A createRuntime hook of crun writes the container's state to a pipe; its first process is then in
all its namespaces, and does not continue before the gate is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import msgspec

from lading.core.errors import ExecutionError, Failure
from lading.process import tree_removal
from lading.process.concurrency import cancel_all
from lading.supervisor import linux
from lading.supervisor.engines import Bind, NetworkAccess
from lading.supervisor.engines.bundle import HOSTNAME
from lading.supervisor.network.container_network import ContainerNetwork

DIRECTORY = "network"
"""Subdirectory of the run directory."""
# Seconds for crun to make the container.
_TIMEOUT = 60.0
# Bytes of the state, which has a few hundred.
_MOST_BYTES = 1 << 16


class NativeNetwork:
    """The network of one container of crun."""

    def __init__(self, reach: NetworkAccess, run: Path) -> None:
        self._network = ContainerNetwork(reach, run / DIRECTORY, hostname=HOSTNAME)
        self._directory = run / DIRECTORY
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    @property
    def notice(self) -> str:
        """Path to which the hook writes the state of the container."""
        return f"/proc/{os.getpid()}/fd/{self._writing}"

    def binds(self) -> tuple[Bind, ...]:
        """Files about the network for the container. Raises OSError, ExecutionError."""
        return self._network.binds()

    async def connect(
        self, runtime: int, *, timeout: float = _TIMEOUT, most_bytes: int = _MOST_BYTES
    ) -> None:
        """Connect the container of the process `runtime`. When that process ends first, its failure
        is reported elsewhere. Raises ExecutionError.
        """
        state = asyncio.create_task(self._read_state(most_bytes))
        ending = asyncio.create_task(linux.ended(runtime))
        try:
            await asyncio.wait(
                (state, ending), return_when=asyncio.FIRST_COMPLETED, timeout=timeout
            )
            if state.done():
                await self._network.open(state.result())
            elif not ending.done():
                raise ExecutionError("crun does not make the container in time", Failure.NODE)
        finally:
            await cancel_all(state, ending)

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
        tree_removal.remove(self._directory)

    async def _read_state(self, most: int) -> int:
        """Number of the container's first process."""
        loop, readable, output = asyncio.get_running_loop(), asyncio.Event(), b""
        loop.add_reader(self._reading, readable.set)
        try:
            while len(output) < most:
                await readable.wait()
                readable.clear()
                with contextlib.suppress(BlockingIOError):
                    # The state may arrive in parts; an incomplete one does not decode.
                    output += os.read(self._reading, most)
                # The output of crun is unreadable: no process.
                with contextlib.suppress(msgspec.DecodeError):
                    return msgspec.json.decode(output, type=_State).pid
        finally:
            loop.remove_reader(self._reading)
        raise ExecutionError("crun's state of the container is too long", Failure.NODE)


class _State(msgspec.Struct):
    """The used part of crun's output (OCI runtime specification, State)."""

    pid: int

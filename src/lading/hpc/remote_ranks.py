"""Ranks of a cluster on other machines, by agents.

An agent is a process on a further machine, in the network namespace of its one rank, connected to
the conductor by a pipe:

    agent      {"port": 4789, "address": "10.0.0.2", "leader": "10.0.0.1"}
               its end of the VXLAN link is made
    conductor  {"peers": [[rank, address, port], ...], "identity": {...}, "environment": {...}}
    agent      {"started": true} or {"fault": "...", "failure": "..."}
               its rank runs
    conductor  {"end": true}, or the end of the pipe
               its rank must end
    agent      a tar archive of its output directory

`SpreadGround` is the conductor's side. If ranks are on several machines, each machine has one rank
with its own output directory. The archives are stored unchanged in the spool; when all ranks have
ended the supervisor merges them into one directory.

`serve` is the agent. It makes its end of the VXLAN link, starts the rank on the conductor's
message, and ends on a message or when the connection is lost. The supervisor that started it ends
the rest of its control group and sends the output.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lading.core.errors import ExecutionError, Failure, Invalid, LadingError, RequestError
from lading.core.hpc import addresses
from lading.hpc import network
from lading.hpc.plan import ClusterPlan, Identity
from lading.hpc.ranks import NativeGround
from lading.net.rpc import LinePipe

# Seconds for the image and the inputs to get to a machine.
_READY_TIME = 600.0

# Seconds for _CHUNK bytes of an output; slower machines count as lost.
_SILENCE = 120.0

_CHUNK = 1 << 18

# Of the disk, that the spool leaves free.
_RESERVE = 0.05

_FIELDS = ("certificate", "key", "authorization")


@dataclass(slots=True)
class SpreadGround:
    """Rank 0 is here, each other one on a machine of its own; one network for all
    (`network.Wire`).
    """

    native: NativeGround
    wires: tuple[network.Wire, ...]
    """The address of the kind (IPv4 or IPv6) by which the other machines know this one is used."""
    pipes: tuple[LinePipe, ...]
    spool: Path
    silence: float = _SILENCE
    """Seconds for a chunk of an output; slower machines count as lost."""
    _peers: list[list[object]] = field(default_factory=list)

    async def open(self) -> None:
        """Make this machine's part of the network, and learn where the others' are. Raises
        ExecutionError.
        """
        heard = []
        for rank, pipe in enumerate(self.pipes, 1):
            await pipe.open()
            heard.append(self._heard(rank, await _within(rank, pipe, "port")))
        wire = self._wire([str(reply["leader"]) for reply in heard])
        await network.make_bridge(wire)
        self._peers = [[0, heard[0]["leader"], wire.port]]
        self._peers += [
            [rank, reply["address"], reply["port"]] for rank, reply in enumerate(heard, 1)
        ]
        await network.tell_peers(wire, own=0, peers=self._peers)

    def _wire(self, leaders: list[str]) -> network.Wire:
        try:
            version = addresses.common_version(leaders)
        except Invalid as error:
            raise ExecutionError(error.message, Failure.NODE) from error
        for wire in self.wires:
            if wire.version == version:
                return wire
        raise ExecutionError(
            f"this machine has no IPv{version}, by which others reach it", Failure.NODE
        )

    async def start(self, number: int, identity: Identity, environment: Mapping[str, str]) -> str:
        """Start a rank; its address. Raises ExecutionError."""
        if number == 0:
            return await self.native.start(number, identity, environment)
        pipe = self.pipes[number - 1]
        # Its machine is gone, which its reader notices.
        with contextlib.suppress(BrokenPipeError):
            pipe.send(
                {
                    "peers": self._peers,
                    "identity": asdict(identity),
                    "environment": dict(environment),
                }
            )
        self._heard(number, await _within(number, pipe, "started"))
        return network.address(number)

    async def ended(self, number: int) -> str:
        """As on this machine; the ranks on others have the same image."""
        return await self.native.ended(number) if number == 0 else ""

    async def gather(self) -> list[str]:
        """End the other ranks and receive their archives; return sentences about missing ones."""
        for pipe in self.pipes:
            # Its machine is gone, which its reader notices.
            with contextlib.suppress(BrokenPipeError):
                pipe.send({"end": True})
        return [
            sentence
            for rank, pipe in enumerate(self.pipes, 1)
            for sentence in await self._take(rank, pipe)
        ]

    async def _take(self, rank: int, pipe: LinePipe) -> list[str]:
        """Keep the archive of a rank. One that is too large, or comes too slowly, is thrown
        away.
        """
        archive = self.spool / f"{rank}.tar"
        try:
            left = spool_room(self.spool)
            with archive.open("wb") as file:
                # A working connection transfers more than a chunk in this time.
                while data := await _fill(pipe.reader, self.silence):
                    left -= len(data)
                    if left < 0:
                        raise OSError(
                            errno.ENOSPC, "the disk of the first machine has no room for it"
                        )
                    await asyncio.to_thread(file.write, data)
        except OSError as error:
            archive.unlink(missing_ok=True)
            return [f"rank {rank}: its output could not be had: {error.strerror or error}"]
        return []

    def _heard(self, rank: int, heard: dict[str, Any]) -> dict[str, Any]:
        fault = heard.get("fault")
        if fault:
            raise ExecutionError(f"rank {rank}: {fault}", _failure(heard.get("failure")))
        return heard


def _failure(named: object) -> Failure:
    """The class of a fault that a remote rank names: of a machine that has no room or no GPU
    another one may have it.
    """
    known = (Failure.DISK, Failure.NODE, Failure.IMAGE)
    return next((failure for failure in known if failure == named), Failure.INFRASTRUCTURE)


async def _within(rank: int, pipe: LinePipe, word: str) -> dict[str, Any]:
    """Check that a message of a remote rank has `word`. Raises ExecutionError."""
    try:
        heard = await pipe.receive(timeout=_READY_TIME)
    except (TimeoutError, RequestError) as error:
        raise ExecutionError(f"rank {rank}: its machine does not answer") from error
    if word not in heard and "fault" not in heard:
        raise ExecutionError(f"rank {rank}: its supervisor has ended; see the log of its machine")
    return heard


async def _fill(reader: asyncio.StreamReader, silence: float) -> bytes:
    """The next chunk, shorter only at the end. Raises TimeoutError."""
    try:
        async with asyncio.timeout(silence):
            return await reader.readexactly(_CHUNK)
    except asyncio.IncompleteReadError as error:
        return error.partial
    except TimeoutError:
        raise TimeoutError(
            f"its machine sent less than {_CHUNK} bytes in {silence:.0f} s"
        ) from None


def spool_room(directory: Path) -> int:
    """Bytes that may be added to a spool: some of the disk stays free, and archives are unpacked
    beside themselves.
    """
    disk = os.statvfs(directory)
    return int(max(0, disk.f_bavail - _RESERVE * disk.f_blocks) * disk.f_frsize / 2)


def read_identity(message: Mapping[str, str]) -> Identity:
    """The identity in a message."""
    return Identity(*(str(message[name]) for name in _FIELDS))


def own_address(leader: str) -> str:
    """The address with which this machine reaches the conductor's. Raises OSError."""
    with socket.socket(network.FAMILIES[addresses.ip_version(leader)], socket.SOCK_DGRAM) as probe:
        probe.connect((leader, 9))
        return str(probe.getsockname()[0])


async def serve(
    plan: ClusterPlan, wire: network.Wire, *, rank: int, leader: str, address: str
) -> int:
    """Run the rank, from the creation of the network to the end; return the exit code of the
    process.
    """
    pipe = LinePipe(0, 1)
    await pipe.open()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, pipe.reader.feed_eof)
    # The conductor has ended, so no report is needed.
    with contextlib.suppress(BrokenPipeError):
        try:
            await network.make_bridge(wire, alone=True)
            pipe.send({"port": wire.port, "address": address, "leader": leader})
            message = await pipe.receive()
            if "peers" in message:
                await network.tell_peers(wire, own=rank, peers=message["peers"])
                ground = NativeGround(plan.name, plan.bundles, plan.crun, spread=True)
                await ground.start(rank, read_identity(message["identity"]), message["environment"])
                pipe.send({"started": True})
                await pipe.receive()
        except (LadingError, OSError) as error:
            fault = error.message if isinstance(error, LadingError) else str(error)
            pipe.send({"fault": fault})
    return 0

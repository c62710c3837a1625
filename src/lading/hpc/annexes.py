"""Ranks on other machines, as the conductor sees them: each has an annex of the supervisor, at the end of a pipe.

    annex      {"port": 4789, "address": "10.0.0.2", "leader": "10.0.0.1"}    it has made its end of the wire
    conductor  {"peers": [[rank, address, port], ...], "identity": {...}, "environment": {...}}
    annex      {"started": true} or {"fault": "..."}                          its rank runs
    conductor  {"end": true}, or the end of the pipe                          its rank is to be ended
    annex      a tar archive                                                  what is in its output directory

Where ranks are on several machines, each machine has a rank, and an output directory of its own; when the gang has
ended they become one. What is in that of a lower rank stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lading.core import hpc_wires
from lading.core.errors import ExecutionError, Failure, Invalid
from lading.hpc import network
from lading.hpc.credentials import Identity
from lading.hpc.ranks import NativeGround

_MOST_LINE = 1 << 22
_READY_TIME = 600.0
"""Seconds for the image and the inputs to get to a machine."""
_SILENCE = 120.0
_CHUNK = 1 << 18
_FIELDS = ("certificate", "key", "authorization")


@dataclass(slots=True)
class Pipe:
    """Lines of JSON to and from the other end, which may be followed by bytes."""

    reading: int
    writing: int
    reader: asyncio.StreamReader = field(init=False)

    async def open(self) -> None:
        """Begin to read. Raises OSError."""
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(_MOST_LINE)
        protocol = asyncio.StreamReaderProtocol(self.reader)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(self.reading, "rb", buffering=0))

    def tell(self, said: Mapping[str, Any]) -> None:
        """Say something. Raises BrokenPipeError."""
        data = json.dumps(said).encode() + b"\n"
        while data:
            data = data[os.write(self.writing, data) :]

    async def hear(self, *, patience: float | None = None) -> dict[str, Any]:
        """What the other end says next; nothing when it has gone. Raises TimeoutError, ValueError."""
        async with asyncio.timeout(patience):
            line = await self.reader.readline()
        heard: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {}
        return heard


@dataclass(slots=True)
class SpreadGround:
    """Rank 0 is here, each other one on a machine of its own; one network for all (`network.Wire`)."""

    native: NativeGround
    wires: tuple[network.Wire, ...]
    """Of which that is used whose kind of address the others know this machine by."""
    pipes: tuple[Pipe, ...]
    output: Path
    scratch: Path
    _peers: list[list[object]] = field(default_factory=list)

    async def open(self) -> None:
        """Make this machine's part of the network, and learn where the others' are. Raises ExecutionError."""
        heard = []
        for rank, pipe in enumerate(self.pipes, 1):
            await pipe.open()
            heard.append(self._heard(rank, await _within(rank, pipe, "port")))
        wire = self._wire([str(one["leader"]) for one in heard])
        await network.make_bridge(wire)
        self._peers = [[0, heard[0]["leader"], wire.port]]
        self._peers += [[rank, one["address"], one["port"]] for rank, one in enumerate(heard, 1)]
        await network.tell_peers(wire, own=0, peers=self._peers)

    def _wire(self, leaders: list[str]) -> network.Wire:
        try:
            version = hpc_wires.common_version(leaders)
        except Invalid as error:
            raise ExecutionError(error.message, Failure.NODE) from error
        for wire in self.wires:
            if wire.version == version:
                return wire
        raise ExecutionError(f"this machine has no IPv{version}, by which others reach it", Failure.NODE)

    async def start(self, number: int, identity: Identity, environment: Mapping[str, str]) -> str:
        """Start a rank; its address. Raises ExecutionError."""
        if number == 0:
            return await self.native.start(number, identity, environment)
        pipe = self.pipes[number - 1]
        with contextlib.suppress(BrokenPipeError):
            pipe.tell({"peers": self._peers, "identity": asdict(identity), "environment": dict(environment)})
        self._heard(number, await _within(number, pipe, "started"))
        return network.address(number)

    async def gather(self) -> list[str]:
        """End the others, and bring what they have put out here; sentences on what cannot be had."""
        for pipe in self.pipes:
            with contextlib.suppress(BrokenPipeError):
                pipe.tell({"end": True})
        return [said for rank, pipe in enumerate(self.pipes, 1) for said in await self._take(rank, pipe)]

    async def _take(self, rank: int, pipe: Pipe) -> list[str]:
        archive = self.scratch / f"output-{rank}.tar"
        try:
            with archive.open("wb") as file:
                while True:
                    async with asyncio.timeout(_SILENCE):
                        data = await pipe.reader.read(_CHUNK)
                    if not data:
                        break
                    file.write(data)
            return await asyncio.to_thread(unpack, archive, self.output, rank)
        except (OSError, tarfile.TarError) as error:
            return [f"rank {rank}: not all of its output could be had: {error}"]
        finally:
            archive.unlink(missing_ok=True)

    def _heard(self, rank: int, heard: dict[str, Any]) -> dict[str, Any]:
        fault = heard.get("fault")
        if fault:
            raise ExecutionError(f"rank {rank}: {fault}", Failure.INFRASTRUCTURE)
        return heard


async def _within(rank: int, pipe: Pipe, word: str) -> dict[str, Any]:
    """What an annex says, which must have `word` or be a fault. Raises ExecutionError."""
    try:
        heard = await pipe.hear(patience=_READY_TIME)
    except (TimeoutError, ValueError) as error:
        raise ExecutionError(f"rank {rank}: its machine does not answer") from error
    if word not in heard and "fault" not in heard:
        raise ExecutionError(f"rank {rank}: its supervisor has ended; see the log of its machine")
    return heard


def unpack(archive: Path, directory: Path, rank: int) -> list[str]:
    """Add what is in an archive to a directory; a sentence for each thing that does not belong there.

    What is there already stays, links that lead out are left out. Raises OSError, tarfile.TarError.
    """
    left: list[str] = []
    with tarfile.open(archive) as opened:
        # Python 3.11.3 and older have no filters, newer ones want one to be named.
        opened.extraction_filter = lambda member, _: member
        for member in opened:
            place = directory / member.name
            if os.path.lexists(place) and not (member.isdir() and place.is_dir() and not place.is_symlink()):
                continue
            fault = _fault(member, directory)
            if fault:
                left.append(f"rank {rank}: {member.name} is left out: {fault}")
                continue
            member.mode &= 0o755
            member.uid, member.gid = os.geteuid(), os.getegid()
            opened.extract(member, directory, set_attrs=not member.isdir(), numeric_owner=True)
    return left


def _fault(member: tarfile.TarInfo, directory: Path) -> str:
    """Why a member has no place below a directory; "" where it has one."""
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        return "it is no file, directory or link"
    place = directory / member.name
    if not _is_below(place, directory):
        return "it leads out of the output"
    if member.issym() and not _is_below(place.parent / member.linkname, directory):
        return f"it is a link to {member.linkname}, out of the output"
    if member.islnk() and not _is_below(directory / member.linkname, directory):
        return f"it is the same file as {member.linkname}, out of the output"
    return ""


def _is_below(place: Path, directory: Path) -> bool:
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(directory))


def read_identity(given: Mapping[str, str]) -> Identity:
    """The identity in a message."""
    return Identity(*(str(given[name]) for name in _FIELDS))

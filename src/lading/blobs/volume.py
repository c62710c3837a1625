"""The volume seam: protocols that every volume implements, and the look-up of drivers.

A volume has two parts: a store of blocks by hash, and a bin for discarded blocks, which can be
restored. Some volumes can also write a block while it arrives (`Drafting`), pass its open file to a
reader (`Lending`), or return space after a garbage collection (`Compacting`). Drivers are entry
points in the group `lading.volumes`; the name of one is its `Driver` in the configuration
(`Directory`, `S3`), and it is called with the driver's parameters.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from lading.blobs.block_files import FileDraft
from lading.core.errors import Invalid

GROUP: Final = "lading.volumes"
_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
Buffer = bytes | bytearray | memoryview
Parameters = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Stored:
    """One block in a volume: hash, size in bytes, time of its last put in Unix nanoseconds."""

    hash: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Discarded:
    """One block in the bin: hash, size in bytes, time of discarding in Unix nanoseconds."""

    hash: str
    size: int
    discarded_ns: int


@dataclass(frozen=True, slots=True)
class Space:
    """Total bytes (0: unlimited) and free bytes."""

    total: int
    free: int


class BlockVolume(Protocol):
    """Stores blocks by hash. An acknowledged block is durable; a returned block is verified."""

    @property
    def device(self) -> str:
        """Identity of the storage: two volumes with the same device count as one."""

    async def put(self, hash: str, data: Buffer) -> None:
        """Store a block whose hash the caller has checked; for an intact stored block, update the
        time of its last put.

        Raises Full, Unavailable.
        """

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The block; if `into` is given, at its beginning.

        Raises NotFound (also when the block is larger than `into`), Corrupt when the stored bytes
        do not match the hash, Unavailable.
        """

    async def head(self, hash: str) -> Stored:
        """Size and time of the last put of a block, without reading it. Raises NotFound,
        Unavailable.
        """

    def index(self, prefix: str = "") -> AsyncIterator[Stored]:
        """Every block whose hash begins with `prefix`, sorted by hash. Raises Unavailable."""

    async def space(self) -> Space:
        """Total and free space. Raises Unavailable."""

    async def close(self) -> None:
        """Close open files and connections."""


class Bin(Protocol):
    """Discards blocks and restores them."""

    async def touch(self, hash: str) -> None:
        """Set the time of the last put to now. Raises NotFound, Unavailable."""

    async def discard(self, hash: str, mtime_ns: int) -> None:
        """Move a block to the bin. Raises Conflict when its last put was at another time, NotFound,
        Unavailable.
        """

    async def restore(self, hash: str) -> None:
        """Restore a block, with now as its last put. Raises NotFound, Unavailable."""

    def discarded(self) -> AsyncIterator[Discarded]:
        """All blocks in the bin. Raises Unavailable."""

    async def delete(self, hash: str, discarded_ns: int) -> None:
        """Delete a block that was moved to the bin at this time. Raises NotFound, Unavailable."""

    async def quarantine(self, hash: str, mtime_ns: int) -> None:
        """Take a damaged block out of use and keep its bytes for inspection.

        Raises Conflict when its last put was at another time, NotFound, Unavailable.
        """


class Volume(BlockVolume, Bin, Protocol):
    """A store of blocks with a bin."""


@runtime_checkable
class Drafting(Protocol):
    """A volume that can write a block while its bytes arrive."""

    async def begin(self, size: int) -> FileDraft | None:
        """A draft of at most `size` bytes, or None where the block is better put as a whole.
        Raises Full, Unavailable.
        """


@runtime_checkable
class Lending(Protocol):
    """A volume whose blocks can be passed as open files on this machine."""

    async def lend(self, hash: str) -> Loan:
        """The open file of a block, not verified. Raises NotFound, Corrupt, Unavailable."""


@runtime_checkable
class Compacting(Protocol):
    """A volume that keeps several blocks in one file."""

    async def compact(self) -> None:
        """Return the space of blocks that were taken away. Raises Corrupt, Unavailable."""


def open_volume(driver: str, parameters: Parameters) -> Volume:
    """The volume of a driver with parameters. Raises Invalid that lists the drivers."""
    # Imported here: it is slow, and not needed without a configuration.
    from importlib.metadata import entry_points

    drivers = [entry for entry in entry_points(group=GROUP) if entry.name == driver]
    if not drivers:
        names = ", ".join(sorted({entry.name for entry in entry_points(group=GROUP)}))
        raise Invalid(f"configuration: Volumes: no driver {driver!r}; there are: {names}")
    volume: Volume = drivers[0].load().from_parameters(parameters)
    return volume


def read_parameters(
    driver: str, parameters: Parameters, defaults: Parameters
) -> dict[str, str | int | float | bool]:
    """The parameters with their defaults; the driver checks required parameters, whose default is
    `""`.

    Raises Invalid for a name that is not among the defaults, and for a value of another type.
    """
    for name, value in parameters.items():
        if name not in defaults:
            raise Invalid(
                f"configuration: Volumes: {driver}: unknown parameter {name};"
                f" known: {', '.join(defaults)}"
            )
        wanted = type(defaults[name])
        # An integer is a valid value for a float parameter.
        if not isinstance(value, wanted) and not (wanted is float and isinstance(value, int)):
            raise Invalid(
                f"configuration: Volumes: {driver}: {name} must be a {wanted.__name__},"
                f" not {value!r}"
            )
    return {**defaults, **parameters}


class Loan:
    """`descriptor` is open, for reading only, until this is closed or garbage collected."""

    def __init__(self, path: Path | None, data: Buffer = b"") -> None:
        """The file at `path`, or one in memory with these bytes. Raises OSError."""
        self.descriptor = -1
        if path is None:
            self.descriptor = os.memfd_create("block", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.write(self.descriptor, data)
            # The descriptor itself could be written to.
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)
        else:
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the descriptor; the receiver's copy stays open. Idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # The caller may have been cancelled before a slow disk opened the file.
        self.close()

"""Where blocks are kept: what every volume does, and how its driver is found.

A volume is two small things: a shelf, on which blocks lie by their hash, and a bin, into which blocks go that nothing
names any more, and out of which they come back when that was wrong. Drivers are entry points in the group
`lading.volumes`; the name of one is its `Driver` in the configuration (`Directory`, `S3`), and it is called with the
driver's parameters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from lading.blobs.loan import Loan
from lading.core.errors import Invalid

GROUP: Final = "lading.volumes"
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
    """One block in the bin: hash, size in bytes, time at which it was thrown there in Unix nanoseconds."""

    hash: str
    size: int
    discarded_ns: int


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes in all (0: unlimited) and bytes that can still be kept."""

    total: int
    free: int


class Shelf(Protocol):
    """Keeps blocks by hash. Acknowledged means durable; what is read has been verified."""

    @property
    def device(self) -> str:
        """What it stores on: two volumes with the same device are one."""
        ...

    async def put(self, hash: str, data: Buffer) -> None:
        """Keep a block whose hash the caller has checked; a block that is there whole counts as put now.

        Raises Full, Unavailable.
        """

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The block; where it is given, at the beginning of `into`.

        Raises NotFound (also when the block is larger than `into`), Corrupt when what is kept does not match the hash,
        Unavailable.
        """

    async def head(self, hash: str) -> Stored:
        """What is known of a block without reading it. Raises NotFound, Unavailable."""

    def index(self, prefix: str = "") -> AsyncIterator[Stored]:
        """Every block whose hash begins with `prefix`, sorted by hash. Raises Unavailable."""

    async def space(self) -> Space:
        """What there is and what is left. Raises Unavailable."""

    async def close(self) -> None:
        """Let go of what it holds open."""


class Bin(Protocol):
    """Takes blocks out of sight, and brings them back."""

    async def touch(self, hash: str) -> None:
        """Have a block count as put now. Raises NotFound, Unavailable."""

    async def discard(self, hash: str, mtime_ns: int) -> None:
        """Move a block into the bin. Raises Conflict when its last put was at another time, NotFound, Unavailable."""

    async def restore(self, hash: str) -> None:
        """Bring a block back, as put now. Raises NotFound, Unavailable."""

    def discarded(self) -> AsyncIterator[Discarded]:
        """Everything in the bin. Raises Unavailable."""

    async def delete(self, hash: str, discarded_ns: int) -> None:
        """Remove a block for good that was thrown into the bin at that time. Raises NotFound, Unavailable."""

    async def quarantine(self, hash: str, mtime_ns: int) -> None:
        """Take a damaged block out of use, and keep what there is of it for those who want to look at it.

        Raises Conflict when its last put was at another time, NotFound, Unavailable.
        """


class Volume(Shelf, Bin, Protocol):
    """Both."""


class Draft(Protocol):
    """A block that is being written while its bytes come."""

    async def write(self, piece: memoryview) -> None:
        """Add the next bytes. Raises Full, Unavailable."""

    async def commit(self, hash: str) -> None:
        """Keep all that was written as the block, durably. Raises Full, Unavailable."""

    async def discard(self) -> None:
        """Leave nothing of it. Also after a failure; never raises."""


@runtime_checkable
class Drafting(Protocol):
    """A volume that can write a block while its bytes come."""

    async def begin(self, size: int) -> Draft:
        """A draft of at most that many bytes. Raises Full, Unavailable."""


@runtime_checkable
class Lending(Protocol):
    """A volume whose blocks are files of this machine."""

    async def lend(self, hash: str) -> Loan:
        """The block's file, not verified. Raises NotFound, Corrupt, Unavailable."""
        ...


def open_volume(driver: str, parameters: Parameters) -> Volume:
    """The volume that a driver makes of its parameters. Raises Invalid naming the drivers there are."""
    # Slow to import, and not needed without configuration.
    from importlib.metadata import entry_points

    found = [one for one in entry_points(group=GROUP) if one.name == driver]
    if not found:
        known = ", ".join(sorted({one.name for one in entry_points(group=GROUP)}))
        raise Invalid(f"configuration: Volumes: no driver {driver!r}; there are: {known}")
    volume: Volume = found[0].load().from_parameters(parameters)
    return volume


def read_parameters(driver: str, given: Parameters, defaults: Parameters) -> dict[str, str | int | float | bool]:
    """The parameters with their defaults; a default of `""` that must be given is the driver's to check.

    Raises Invalid for a name that is not among the defaults, and for a value of another type.
    """
    for name, value in given.items():
        if name not in defaults:
            raise Invalid(f"configuration: Volumes: {driver}: unknown parameter {name}; known: {', '.join(defaults)}")
        wanted = type(defaults[name])
        if not isinstance(value, wanted) and not (wanted is float and isinstance(value, int)):
            raise Invalid(f"configuration: Volumes: {driver}: {name} must be a {wanted.__name__}, not {value!r}")
    return {**defaults, **given}

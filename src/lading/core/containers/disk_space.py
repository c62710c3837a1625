"""Room on a disk: what a container may take of it, what is left to records and blocks, when
somebody looks.

- A container may write the capacities of its tmp mounts and a bounded amount beside them (files
  outside of mounts, more than was asked for), in bytes and in files. Who writes more is ended with
  the failure class `disk`.
- A reserve of the disk of the data directory is left to records and blocks. As the disk fills,
  first no container is started any more (`is_short`), then the container that takes most is ended
  (`must_end`), then caches and logs stop growing, then, with half of the reserve left, the block
  store stops taking blocks.
- A container is seen by two means: the free space of the disk, which is cheap to ask for, and a
  walk over its files, which is not, and is made only where free space says that it may have come
  near its limit (`is_walk_due`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lading.core.containers.mounts import covering
from lading.core.resources import GIB, KIB, MIB, UNLIMITED, format_bytes

AUTOMATIC = -1
"""As a configured reserve: a part of the disk."""
_PART = 50
"""The automatic reserve is one fiftieth of the disk, and no more than these."""
_MOST = 1 * GIB
_MOST_FILES = 100_000
_LITTLE = 32
"""Growth of all containers of less than this part of the reserve is not what fills a disk."""
_FASTEST = 2 * GIB
"""Bytes that a container may write in a second, into the memory of the kernel."""
_SHORTEST, _LONGEST = 0.05, 1.0
_LEAST_GROWTH, _LEAST_FILES = 16 * MIB, 1000
"""Growth that is not worth a walk."""
_CLUSTER = 64 * KIB
"""The last bytes of a quota need not be given away."""
_PERIOD = 30.0
"""Seconds after which a container is measured again whatever free space says: others may have given
back as much.
"""
_DUTY, _IDLE_DUTY = 4, 200
"""A walk begins no sooner than after so many times as long as the last one took."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes of a disk, and files: whatever has an inode."""

    size: int = 0
    files: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.size + other.size, self.files + other.files)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.size - other.size, self.files - other.files)


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system: all of it and what is free. One that does not count files has a total of 0 of
    them.
    """

    total: Amount
    free: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchLimits:
    """What the configuration allows a container: bytes of a tmp mount without capacity, bytes
    beside all mounts, files. 0 is no limit.
    """

    mount: int = 100 * GIB
    beside: int = 10 * GIB
    files: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What one container may write: bytes for its mounts and beside them, and files. 0 is no
    limit.
    """

    mounts: int = 0
    beside: int = 0
    files: int = 0

    @property
    def size(self) -> int:
        """All bytes; 0 is no limit."""
        return self.mounts + self.beside if self.beside else 0


def allowance(
    mounts: Mapping[str, object], limits: ScratchLimits, *, output_path: str, ranks: int = 1
) -> Allowance:
    """What a container with these mounts may write on the disk of a machine that has so many ranks
    of it.
    """
    output = covering(mounts, output_path)
    sizes = [_capacity(one, limits.mount, is_output=path == output) for path, one in mounts.items()]
    if UNLIMITED in sizes or not limits.beside:
        return Allowance(files=limits.files * ranks)
    return Allowance(mounts=sum(sizes), beside=limits.beside * ranks, files=limits.files * ranks)


def _capacity(mount: object, default: int, *, is_output: bool) -> int:
    match mount:
        case {"kind": "tmp", "device_type": "ram"} if not is_output:
            return 0
        case {"kind": "tmp", "capacity": int(capacity)} if capacity > 0:
            return capacity
        case {"kind": "tmp"} | {"kind": "collection", "writable": True}:
            return default or UNLIMITED
    return 0


def excess(used: Amount, allowed: Allowance) -> str:
    """What a container has taken more than it may, as a sentence; "" when it has not."""
    if 0 < allowed.size < used.size:
        return (
            f"the container has written {format_bytes(used.size)} to the disk of this machine, and"
            f" {format_bytes(allowed.size)} are allowed: {format_bytes(allowed.mounts)} for its"
            f" tmp mounts and {format_bytes(allowed.beside)} beside them"
            " (Containers.ScratchBesideMounts);"
            " ask for more capacity in its mounts, or write less"
        )
    if 0 < allowed.files < used.files:
        return (
            f"the container has made {used.files} files on the disk of this machine,"
            f" and {allowed.files} are allowed (Containers.ScratchFiles); write fewer"
        )
    return ""


def spent(used: Amount, most: Amount) -> str:
    """What of a quota `most` (0 is no limit) is used up, as half a sentence; "" when nothing is."""
    if 0 < most.size <= used.size + _CLUSTER:
        return (
            f"it had written {format_bytes(used.size)}, all that its mounts (capacity) and"
            " Containers.ScratchBesideMounts allow"
        )
    if 0 < most.files <= used.files:
        return f"it had made {used.files} files, all that Containers.ScratchFiles allows"
    return ""


def reserve(total: Amount, wanted: Amount) -> Amount:
    """What of a disk is left to records and blocks, where this is configured."""
    return Amount(
        wanted.size if wanted.size >= 0 else min(total.size // _PART, _MOST),
        wanted.files if wanted.files >= 0 else min(total.files // _PART, _MOST_FILES),
    )


def room(disk: Disk, kept: Amount) -> Amount:
    """What is free beside the reserve `kept`; less than 0 where that has been touched."""
    return Amount(
        disk.free.size - kept.size,
        disk.free.files - kept.files if disk.total.files else UNLIMITED,
    )


def is_short(disk: Disk, kept: Amount) -> bool:
    """Whether no container is to be started: less is free than twice the reserve."""
    left = room(disk, kept)
    return left.size < kept.size or left.files < kept.files


@dataclass(frozen=True, slots=True)
class Writer:
    """A container on a disk: what it takes of it, and how much of that since there was last room
    enough.
    """

    name: str
    taken: Amount
    grown: Amount


def is_urgent(disk: Disk, kept: Amount) -> bool:
    """Whether a container is to be ended, so that the reserve is not touched: it, and a quarter of
    it, is left.
    """
    left = room(disk, kept)
    return left.size < kept.size // 4 or left.files < kept.files // 4


def must_end(disk: Disk, kept: Amount, own: Writer, others: Iterable[Writer]) -> str:
    """Why the container `own` is the one to be ended, as a sentence; "" when it is not.

    It is the one that takes most. None is ended where containers are not what fills the disk, as
    their taking more shows.
    """
    everyone, left = [own, *others], room(disk, kept)
    if left.size < kept.size // 4:
        most = max(everyone, key=lambda one: (one.taken.size, one.name))
        if most is own and sum(one.grown.size for one in everyone) > kept.size // _LITTLE:
            return (
                f"the disk of this machine is almost full: {format_bytes(disk.free.size)} are free,"
                f" and {format_bytes(kept.size)} are kept for records and blocks"
                " (Containers.DiskReserve); this container takes the most,"
                f" {format_bytes(own.taken.size)}; write less, or free some space on the disk"
            )
    elif left.files < kept.files // 4:
        most = max(everyone, key=lambda one: (one.taken.files, one.name))
        if most is own and sum(one.grown.files for one in everyone) > kept.files // _LITTLE:
            return (
                "the disk of this machine has almost no room for further files:"
                f" {disk.free.files}, and {kept.files} are kept for records and blocks"
                " (Containers.DiskReserveFiles); this container has the most,"
                f" {own.taken.files}; write fewer, or remove some from the disk"
            )
    return ""


def pause(left: int) -> float:
    """Seconds until the next look at a disk of which `left` bytes may be written without harm."""
    return min(_LONGEST, max(_SHORTEST, left / (2 * _FASTEST)))


def left_of(used: Amount, allowed: Allowance) -> Amount:
    """What a container may still write."""
    return Amount(
        max(0, allowed.size - used.size) if allowed.size else UNLIMITED,
        max(0, allowed.files - used.files) if allowed.files else UNLIMITED,
    )


def is_walk_due(grown: Amount, left: Amount, *, since: float, took: float) -> bool:
    """Whether a container is to be measured again.

    `grown`: what the disk has lost since the last walk, which began `since` seconds ago and took so
    long; `left`: what the container could still write then.
    """
    if since < took * _DUTY:
        return False
    if grown.size >= max(left.size // 2, _LEAST_GROWTH) or grown.files >= max(
        left.files // 2, _LEAST_FILES
    ):
        return True
    return since >= max(_PERIOD, took * _IDLE_DUTY) and grown != Amount()

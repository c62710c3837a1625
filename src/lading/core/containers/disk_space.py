"""Disk space of containers: the limit of each container, the reserve of the disk, and when to
measure use.

- A container may write the capacities of its tmp mounts and a bounded amount beside them (files
  outside of mounts, excess over capacities), in bytes and in files. A container that writes more is
  ended with the failure class `disk`.
- A reserve of the disk of the data directory is kept for records and blocks. As the disk fills,
  first no container is started any more (`is_short`), then the container with the largest use is
  ended (`must_end`), then caches and logs stop growing, then, with half of the reserve left, the
  block store refuses blocks.
- A container is observed by two means: the free space of the disk, which is cheap to read, and a
  walk over its files, which is expensive, and is made only when free space shows that the container
  may be near its limit (`is_walk_due`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from lading.core.containers.container import Container
from lading.core.containers.mounting.mounts import covering, is_writable_collection
from lading.core.resources import GIB, KIB, MIB, UNLIMITED, format_bytes
from lading.core.values import printable

AUTOMATIC = -1
"""Value of a configured reserve: a part of the disk."""
# The automatic reserve is one fiftieth of the disk, bounded by these amounts.
_PART = 50
_MOST = 1 * GIB
# Inodes of the default reserve at most.
_MOST_FILES = 100_000
# The containers fill a disk only if they grew by more than this part of the reserve.
_LITTLE = 32
# Bytes that a container may write in a second, into the kernel's page cache.
_FASTEST = 2 * GIB
# Seconds between two looks at a disk.
_SHORTEST, _LONGEST = 0.05, 1.0
# Growth that is too small for a walk.
_LEAST_GROWTH, _LEAST_FILES = 16 * MIB, 1000
# Bytes of a quota that may stay unused when it counts as spent: writes may need whole blocks.
_CLUSTER = 64 * KIB
# Seconds after which a container is measured again, even if free space has not changed: others may
# have freed as much as it wrote.
_PERIOD = 30.0
# A walk begins no sooner than after so many times the duration of the last one, with and without
# suspicion.
_DUTY, _IDLE_DUTY = 4, 200


DISK_FACTOR = "disk_factor"
"""Scheduling parameter of a container: times the usual disk space that it may fill. Only the server
sets it, for a retry after `disk`.
"""


def disk_factor(scheduling_parameters: Mapping[str, object]) -> float:
    """Times the usual disk space that a container may fill; 1 or more."""
    value = scheduling_parameters.get(DISK_FACTOR)
    return max(1.0, float(value)) if isinstance(value, int | float) else 1.0


class Amount(msgspec.Struct, frozen=True):
    """Bytes of a disk, and files: everything with an inode."""

    size: int = 0
    files: int = 0

    def __add__(self, amount: Amount) -> Amount:
        return Amount(self.size + amount.size, self.files + amount.files)

    def __sub__(self, amount: Amount) -> Amount:
        return Amount(self.size - amount.size, self.files - amount.files)


class FileSystemSpace(msgspec.Struct, frozen=True):
    """A file system: total and free space. One that does not count files has a total of 0 files."""

    total: Amount
    free: Amount


class ScratchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Configured limits of a container: bytes of a tmp mount without capacity, bytes outside all
    mounts, files. 0 is no limit.
    """

    mount: int = 100 * GIB
    beside: int = 10 * GIB
    files: int = 1_000_000


class DiskAllowance(msgspec.Struct, frozen=True, kw_only=True):
    """Allowance of one container: bytes for its mounts and outside them, and files. 0 is no
    limit.
    """

    mounts: int = 0
    beside: int = 0
    files: int = 0

    @property
    def size(self) -> int:
        """All bytes; 0 is no limit."""
        return self.mounts + self.beside if self.beside else 0


def allowance_of(container: Container, limits: ScratchLimits, *, ranks: int = 1) -> DiskAllowance:
    """Allowance of a container on a machine that has `ranks` ranks of it."""
    return allowance(
        container.mounts,
        limits,
        output_path=container.output_path,
        ranks=ranks,
        factor=disk_factor(container.scheduling_parameters),
    )


def allowance(
    mounts: Mapping[str, object],
    limits: ScratchLimits,
    *,
    output_path: str,
    ranks: int = 1,
    factor: float = 1.0,
) -> DiskAllowance:
    """Allowance of a container with these mounts on the disk of a machine that has `ranks` ranks of
    it; `factor`: times the usual amounts.
    """
    output = covering(mounts, output_path)
    sizes = [
        _capacity(mount, limits.mount, is_output=path == output) for path, mount in mounts.items()
    ]
    if UNLIMITED in sizes or not limits.beside:
        return DiskAllowance(files=int(limits.files * ranks * factor))
    return DiskAllowance(
        mounts=int(sum(sizes) * factor),
        beside=int(limits.beside * ranks * factor),
        files=int(limits.files * ranks * factor),
    )


def _capacity(mount: object, default: int, *, is_output: bool) -> int:
    match mount:
        # On a file system in memory. The output is always on disk.
        case {"kind": "tmp", "device_type": "ram"} if not is_output:
            return 0
        case {"kind": "tmp", "capacity": int(capacity)} if capacity > 0:
            return capacity
        case {"kind": "tmp"}:
            return default or UNLIMITED
        case {"kind": "collection"} if is_writable_collection(mount):
            return default or UNLIMITED
    return 0


def own_capacities(
    mounts: Mapping[str, object], *, output_path: str, factor: float = 1.0
) -> dict[str, int]:
    """Bytes that each tmp mount on disk may hold by its own capacity, by target; without those of
    no capacity. `factor`: times the usual amounts.
    """
    output = covering(mounts, output_path)
    sizes = {
        target: _capacity(mount, 0, is_output=target == output)
        for target, mount in mounts.items()
        if isinstance(mount, dict) and mount.get("kind") == "tmp"
    }
    return {target: int(size * factor) for target, size in sizes.items() if 0 < size < UNLIMITED}


def overfull_sentences(overfull: Mapping[str, int]) -> tuple[str, ...]:
    """A sentence about each mount that held more than its capacity in bytes."""
    return tuple(
        f"{printable(target)} held more than its capacity, {format_bytes(capacity)}; ask for more, "
        "so that the container is placed where so much is free"
        for target, capacity in sorted(overfull.items())
    )


def excess(used: Amount, allowed: DiskAllowance) -> str:
    """Sentence about an excess over the allowance; "" when there is none."""
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
    """Clause about the part of a quota `most` (0 is no limit) that is used up; "" when none is."""
    if 0 < most.size <= used.size + _CLUSTER:
        return (
            f"it had written {format_bytes(used.size)}, all that its mounts (capacity) and"
            " Containers.ScratchBesideMounts allow"
        )
    if 0 < most.files <= used.files:
        return f"it had made {used.files} files, all that Containers.ScratchFiles allows"
    return ""


def reserve(total: Amount, configured: Amount) -> Amount:
    """The reserve of a disk for records and blocks; automatic amounts where it is not
    configured.
    """
    return Amount(
        configured.size if configured.size >= 0 else min(total.size // _PART, _MOST),
        configured.files if configured.files >= 0 else min(total.files // _PART, _MOST_FILES),
    )


def room(disk: FileSystemSpace, reserved: Amount) -> Amount:
    """Free space beside the reserve `reserved`; negative when the reserve is in use."""
    return Amount(
        disk.free.size - reserved.size,
        disk.free.files - reserved.files if disk.total.files else UNLIMITED,
    )


def is_short(disk: FileSystemSpace, reserved: Amount) -> bool:
    """Whether no container may be started: less than twice the reserve is free."""
    left = room(disk, reserved)
    return left.size < reserved.size or left.files < reserved.files


class DiskWriter(msgspec.Struct, frozen=True):
    """A container on a disk: its use, and its growth since the disk last had enough space."""

    name: str
    taken: Amount
    grown: Amount


def is_urgent(disk: FileSystemSpace, reserved: Amount) -> bool:
    """Whether a container must be ended to protect the reserve: less than the reserve and a quarter
    of it is free.
    """
    left = room(disk, reserved)
    return left.size < reserved.size // 4 or left.files < reserved.files // 4


def must_end(
    disk: FileSystemSpace, reserved: Amount, own: DiskWriter, others: Iterable[DiskWriter]
) -> str:
    """Reason for which the container `own` must be ended, as a sentence; "" when it need not.

    It is the one with the largest use. None is ended when the growth of all containers shows that
    something else fills the disk.
    """
    everyone, left = [own, *others], room(disk, reserved)
    if left.size < reserved.size // 4:
        # The name breaks ties, so that every supervisor chooses the same container.
        most = max(everyone, key=lambda writer: (writer.taken.size, writer.name))
        if most is own and sum(writer.grown.size for writer in everyone) > reserved.size // _LITTLE:
            return (
                f"the disk of this machine is almost full: {format_bytes(disk.free.size)} are free,"
                f" and {format_bytes(reserved.size)} are kept for records and blocks"
                " (Containers.DiskReserve); this container takes the most,"
                f" {format_bytes(own.taken.size)}; write less, or free some space on the disk"
            )
    elif left.files < reserved.files // 4:
        most = max(everyone, key=lambda writer: (writer.taken.files, writer.name))
        if (
            most is own
            and sum(writer.grown.files for writer in everyone) > reserved.files // _LITTLE
        ):
            return (
                "the disk of this machine has almost no room for further files:"
                f" {disk.free.files}, and {reserved.files} are kept for records and blocks"
                " (Containers.DiskReserveFiles); this container has the most,"
                f" {own.taken.files}; write fewer, or remove some from the disk"
            )
    return ""


def pause(left: int) -> float:
    """Seconds until the next look at a disk of which `left` bytes may still be written: half the
    time that the fastest writer would need.
    """
    return min(_LONGEST, max(_SHORTEST, left / (2 * _FASTEST)))


def left_of(used: Amount, allowed: DiskAllowance) -> Amount:
    """Remaining allowance of a container."""
    return Amount(
        max(0, allowed.size - used.size) if allowed.size else UNLIMITED,
        max(0, allowed.files - used.files) if allowed.files else UNLIMITED,
    )


def is_walk_due(grown: Amount, left: Amount, *, since: float, took: float) -> bool:
    """Whether a container has to be measured again.

    `grown`: space lost by the disk since the last walk, which began `since` seconds ago and took
    `took`; `left`: the remaining allowance at that time.
    """
    if since < took * _DUTY:
        return False
    if grown.size >= max(left.size // 2, _LEAST_GROWTH) or grown.files >= max(
        left.files // 2, _LEAST_FILES
    ):
        return True
    return since >= max(_PERIOD, took * _IDLE_DUTY) and grown != Amount()

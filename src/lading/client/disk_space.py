"""Free space of a disk, and checks against its reserve (`core.containers.disk_space`)."""

from __future__ import annotations

import os
from pathlib import Path

from lading.core.containers import disk_space
from lading.core.containers.disk_space import Amount, FileSystemSpace
from lading.core.resources import format_bytes


def read_disk(path: str | Path) -> FileSystemSpace:
    """Total and free space of the file system at `path`, for users other than root. Raises
    OSError.
    """
    found = os.statvfs(path)
    return FileSystemSpace(
        Amount(found.f_blocks * found.f_frsize, found.f_files),
        # f_bavail and f_favail leave out what the file system keeps for root.
        Amount(found.f_bavail * found.f_frsize, found.f_favail),
    )


def lacks_room(path: str | Path, wanted: Amount, *, need: int = 0) -> str:
    """Reason why `need` bytes do not fit beside the configured reserve, as a sentence, or "" if
    they fit.

    Raises OSError when there is no such directory.
    """
    disk = read_disk(path)
    kept = disk_space.reserve(disk.total, wanted)
    left = disk_space.room(disk, kept)
    return _told(path, disk, kept) if left.size < need or left.files < 0 else ""


def is_short(path: str | Path, wanted: Amount) -> str:
    """Reason why no container may be started that writes to `path`, as a sentence, or "" if it may.

    Raises OSError when there is no such directory.
    """
    disk = read_disk(path)
    kept = disk_space.reserve(disk.total, wanted)
    return _told(path, disk, kept) if disk_space.is_short(disk, kept) else ""


def _told(path: str | Path, disk: FileSystemSpace, kept: Amount) -> str:
    files = f" and room for {disk.free.files} files" if disk.total.files else ""
    return (
        f"the disk of {path} is almost full: {format_bytes(disk.free.size)}{files} are free, and"
        f" {format_bytes(kept.size)} and {kept.files} files are kept for records and blocks "
        "(Containers.DiskReserve); free some space there"
    )

"""Disks of this machine: free space, checks against the reserve, spread of directories on ext4.

The reserve is that of `core.containers.disk_space`.

ext4 reuses the inode of a removed file after one minute at the earliest, and searches for a free
inode from the start of the directory's block group. Where many files are created and removed, as by
containers, each creation steps over all inodes that were freed in the last minute; this took a
third of the processor time of a container. The subdirectories of a directory with the attribute T
(chattr(1)) are placed in block groups of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

from lading.core.containers import disk_space
from lading.core.containers.disk_space import Amount, FileSystemSpace
from lading.core.errors import ExecutionError, Failure
from lading.core.resources import format_bytes

# Bytes: a file system with less is full for whatever a container engine does.
_NEXT_TO_NOTHING = 1 << 20
# linux/fs.h: FS_IOC_GETFLAGS, FS_IOC_SETFLAGS and FS_TOPDIR_FL. The kernel reads and writes an int.
_GET = 0x80086601
_SET = 0x40086602
_TOPDIR = 0x20000
_FLAGS = struct.Struct("i4x")


def read_disk(path: str | Path) -> FileSystemSpace:
    """Total and free space of the file system at `path`, for users other than root. Raises
    OSError.
    """
    found = os.statvfs(path)
    return FileSystemSpace(
        Amount(found.f_blocks * found.f_frsize, found.f_files),
        # f_bavail and f_favail leave out the part that the file system keeps for root.
        Amount(found.f_bavail * found.f_frsize, found.f_favail),
    )


def is_full(path: str | Path) -> bool:
    """Whether the file system at `path` has no space, or no inode, left. A path that cannot be
    looked at counts as one with space.
    """
    try:
        disk = read_disk(path)
    except OSError:
        return False
    # Some file systems have no fixed number of inodes, and report none at all.
    return disk.free.size < _NEXT_TO_NOTHING or (disk.total.files > 0 and disk.free.files == 0)


def lacks_room(path: str | Path, reserve: Amount, *, need: int = 0) -> str:
    """Reason why `need` bytes do not fit beside the configured reserve, as a sentence, or "" if
    they fit.

    Raises OSError when there is no such directory.
    """
    disk = read_disk(path)
    reserved = disk_space.reserve(disk.total, reserve)
    left = disk_space.room(disk, reserved)
    return _full_disk_message(path, disk, reserved) if left.size < need or left.files < 0 else ""


def check_room(directory: Path, reserve: Amount, *, need: int, subject: str) -> None:
    """Raise ExecutionError(DISK) when the `need` bytes of `subject` do not fit on a disk beside the
    configured reserve.
    """
    if why := lacks_room(directory, reserve, need=need):
        raise ExecutionError(
            f"no room for the {format_bytes(need)} of {subject}: {why}", Failure.DISK
        )


def is_short(path: str | Path, reserve: Amount) -> str:
    """Reason why no container may be started that writes to `path`, as a sentence, or "" if it may.

    Raises OSError when there is no such directory.
    """
    disk = read_disk(path)
    reserved = disk_space.reserve(disk.total, reserve)
    return _full_disk_message(path, disk, reserved) if disk_space.is_short(disk, reserved) else ""


def _full_disk_message(path: str | Path, disk: FileSystemSpace, reserved: Amount) -> str:
    files = f" and room for {disk.free.files} files" if disk.total.files else ""
    return (
        f"the disk of {path} is almost full: {format_bytes(disk.free.size)}{files} are free, and"
        f" {format_bytes(reserved.size)} and {reserved.files} files are kept for records and blocks"
        " (Containers.DiskReserve); free some space there"
    )


def spread_directories(directory: Path) -> None:
    """Set the attribute T of `directory`; does nothing on other file systems than ext4.

    Raises OSError when there is no such directory.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Only ext2, ext3 and ext4 know the attribute; the ioctl fails on all others.
        with contextlib.suppress(OSError):
            (flags,) = _FLAGS.unpack(fcntl.ioctl(descriptor, _GET, bytes(_FLAGS.size)))
            if not flags & _TOPDIR:
                fcntl.ioctl(descriptor, _SET, _FLAGS.pack(flags | _TOPDIR))
    finally:
        os.close(descriptor)

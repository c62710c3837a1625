"""Project quotas of ext4 and xfs: the kernel bounds the use of the disk below some directories.

A file system supports them when it was made and mounted for them (ext4: `mkfs.ext4 -O
project,quota` or `tune2fs`, mount option `prjquota`; xfs: mount option `prjquota`). Directories get
a project number, which everything created in them inherits; the number has a limit of bytes and of
files. Needs root. A process with CAP_SYS_RESOURCE is not bounded, and a process of the machine's
own user namespace may change the project of its files: containers have neither that capability nor,
by their seccomp profile, the calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from lading.core.containers.disk_space import Amount

# FS_IOC_FSGETXATTR of `linux/fs.h`.
GET_ATTRIBUTES: Final = 0x801C581F
SET_ATTRIBUTES: Final = 0x401C5820
"""FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR of linux/fs.h."""
# FS_XFLAG_PROJINHERIT of linux/fs.h.
_INHERIT: Final = 0x200
ATTRIBUTES: Final = struct.Struct("IIIII8s")
"""struct fsxattr: flags, hints, extents, project, and others."""
# System call number of quotactl_fd (Linux 5.14), the same on all architectures.
_QUOTACTL_FD: Final = 443
# Q_GETQUOTA and Q_SETQUOTA of linux/quota.h.
_GET, _SET = 0x800007, 0x800008
# PRJQUOTA.
_PROJECTS: Final = 2
QUOTA: Final = struct.Struct("QQQQQQQQI4x")
"""struct if_dqblk: limits and use of blocks, of files, times, valid fields."""
# Limits of bytes are given in kibibytes (quotactl(2)).
_BLOCK: Final = 1024
# QIF_BLIMITS and QIF_ILIMITS.
_VALID_LIMITS: Final = 1 | 4
# Projects of containers have numbers from here on; those of administrators are small.
_FIRST_PROJECT: Final = 1 << 30
# Numbers tried before giving up; a number with files belongs to another container.
_TRIES: Final = 16
# Quotas are off, or not supported by the kernel or the file system.
_NO_QUOTAS: Final = frozenset({errno.ESRCH, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
_libc = ctypes.CDLL(None, use_errno=True)
# Devices without project quotas, so that they are not asked for each container.
_without: set[int] = set()


class Project(msgspec.Struct, frozen=True):
    """The project of one container on the file system of `directory`."""

    directory: Path
    number: int

    def limit(self, most: Amount) -> None:
        """Set the limits of all its files; 0 is no limit. Raises OSError."""
        # Rounded up to whole blocks.
        size, files = -(-most.size // _BLOCK), most.files
        with _opened(self.directory) as descriptor:
            _call(
                descriptor,
                _SET,
                self.number,
                QUOTA.pack(size, 0, 0, files, 0, 0, 0, 0, _VALID_LIMITS),
            )

    def used(self) -> Amount:
        """Present use. Raises OSError."""
        with _opened(self.directory) as descriptor:
            return _used(descriptor, self.number)


def begin_project(directory: Path, places: Mapping[str, int]) -> Project | None:
    """Make directories of these names and modes below `directory`, with a project of their own.

    None, and no directory, when the file system has no project quotas or this process may not use
    them.
    """
    # No quotas, or no permission: None.
    with contextlib.suppress(OSError), _opened(directory) as descriptor:
        device = os.fstat(descriptor).st_dev
        if device in _without:
            return None
        try:
            number = _free_number(descriptor, str(directory))
        except OSError as error:
            if error.errno in _NO_QUOTAS:
                _without.add(device)
            raise
        for name, mode in places.items():
            (directory / name).mkdir(exist_ok=True)
            (directory / name).chmod(mode)
            with _opened(directory / name) as below:
                _assign(below, number)
        return Project(directory, number)
    return None


def _free_number(descriptor: int, name: str) -> int:
    # By the name, so that the same run directory gets the same number again.
    first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % _FIRST_PROJECT
    for number in range(_FIRST_PROJECT + first, _FIRST_PROJECT + first + _TRIES):
        if _used(descriptor, number) == Amount():
            return number
    raise OSError(f"{name}: {_TRIES} project numbers for its disk quota are all in use")


def _used(descriptor: int, number: int) -> Amount:
    try:
        _, _, size, _, _, files, *_ = QUOTA.unpack(
            _call(descriptor, _GET, number, bytes(QUOTA.size))
        )
    except FileNotFoundError:
        # xfs reports a project only when it has files or limits.
        return Amount()
    return Amount(size, files)


def _assign(descriptor: int, number: int) -> None:
    flags, hint, extents, _, more, padding = ATTRIBUTES.unpack(
        fcntl.ioctl(descriptor, GET_ATTRIBUTES, bytes(ATTRIBUTES.size))
    )
    fcntl.ioctl(
        descriptor,
        SET_ATTRIBUTES,
        ATTRIBUTES.pack(flags | _INHERIT, hint, extents, number, more, padding),
    )


def _call(descriptor: int, command: int, number: int, data: bytes) -> bytes:
    buffer = ctypes.create_string_buffer(data, len(data))
    # QCMD(command, type) of linux/quota.h.
    code = ctypes.c_uint(command << 8 | _PROJECTS)
    if _libc.syscall(
        ctypes.c_long(_QUOTACTL_FD), ctypes.c_int(descriptor), code, ctypes.c_int(number), buffer
    ):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return buffer.raw


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

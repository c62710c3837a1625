"""The files of a cache on disk: names, locks, parts, and what a power failure leaves of them."""

from __future__ import annotations

import errno
import fcntl
import os
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class CacheLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the files of a cache.

    `suffix` ends the name of an entry. `pattern` is the glob of all names that belong to the cache,
    relative to its directory. `fan_out`: as many first characters of a key name a subdirectory.
    `lock` is the name of a lock file, "{}" for the key; "" where the part is the lock.
    `keeps_parts`: a part that its process left is continued later. `page`: entries count in whole
    pages of so many bytes and one for the inode; 0 counts bytes. `has_ledger`: a file has the sum
    of sizes; room is taken before writing (`EntryClaim.reserve`), or after it (`DiskCache.admit`).
    """

    suffix: str = ""
    pattern: str = "*"
    fan_out: int = 0
    lock: str = ""
    keeps_parts: bool = False
    page: int = 0
    has_ledger: bool = False


class LockState(msgspec.Struct):
    """Content of a lock file: size of the entry in bytes, and the boot that built it."""

    bytes: int
    boot: str


def is_full(error: OSError) -> bool:
    """Whether a disk, or a quota, has no room for more."""
    return error.errno in _FULL


def try_lock(descriptor: int, how: int) -> bool:
    """Take a lock (`fcntl.LOCK_EX` or `LOCK_SH`) unless another open file has it."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@cache
def boot_id() -> str:
    return _BOOT.read_text().strip() if _BOOT.exists() else ""


def unlink(file: Path) -> bool:
    file.unlink(missing_ok=True)
    return True


def remove_part(unfinished: Path) -> bool:
    """Remove a part whose process is gone."""
    try:
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        if not try_lock(descriptor, fcntl.LOCK_EX):
            return False
        return not is_same(unfinished, descriptor) or unlink(unfinished)
    finally:
        os.close(descriptor)


def is_same(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one at the path."""
    try:
        there, ours = path.stat(), os.fstat(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def sync(path: Path) -> None:
    """Write a file, or a directory with the files in it, to the disk."""
    for file in (*(path.iterdir() if path.is_dir() else ()), path):
        sync_one(file)


def sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_total(ledger: int) -> int | None:
    text = os.pread(ledger, 32, 0).strip()
    return int(text) if text.isdigit() else None


def write_total(ledger: int, total: int) -> None:
    os.pwrite(ledger, b"%020d\n" % total, 0)

"""Cache of collections as directories on disk, shared by all containers that read them.

    <directory>/<key>          the files, read-only: all 0555, as Arvados shows them; files of git
    trees 0555 or 0444 <directory>/<key>.lock     locked (flock) shared by every user, exclusively
    to build or remove; says size and boot <directory>/<key>.part     being built, or being removed

The key is a portable data hash, or `git-` and the hash of a git tree or blob.

A lock dies with its process, so that after any kill the next one finds either a whole directory or
none. A directory is not synced to disk: one from before the last start of the machine counts as
absent. When the limit is passed, the directories that were not used for longest go, those in use
never.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from lading import removal
from lading.client.retry import Sleep
from lading.confined import Tree
from lading.core.errors import Invalid
from lading.core.ids import is_pdh

Fill = Callable[[Path], Awaitable[None]]
"""Writes the collection's files below the given empty directory (`collections.download` does)."""

_logger = logging.getLogger("lading.client")
_GIT = re.compile(r"git-[0-9a-f]{40}")
_POLL = 0.02
_BLOCK = 4096
_MOST_DEPTH = 1 << 16
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class _State(msgspec.Struct):
    bytes: int
    boot: str


class TreeCache:
    """Read-only directories by portable data hash, kept below `directory` up to about
    `limit_bytes`.

    Safe to use from any number of processes.
    """

    def __init__(self, directory: Path, limit_bytes: int, *, sleep: Sleep = asyncio.sleep) -> None:
        self._directory = directory
        self._limit = limit_bytes
        self._sleep = sleep
        self._boot = _BOOT.read_text().strip() if _BOOT.exists() else ""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def holds(self, pdh: str) -> bool:
        """Whether the directory is complete now."""
        try:
            descriptor = os.open(self._lock_path(pdh), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return self._ready(pdh, descriptor)
        finally:
            os.close(descriptor)

    @asynccontextmanager
    async def lease(self, pdh: str, fill: Fill) -> AsyncGenerator[Path]:
        """The directory of the collection, which stays while the context is open; `fill` is called
        when it is absent.

        Raises Invalid when `pdh` is none, and what `fill` raises.
        """
        if not (is_pdh(pdh) or _GIT.fullmatch(pdh)):
            raise Invalid(f"{pdh}: not a portable data hash")
        turn = self._turns.setdefault(pdh, asyncio.Lock())
        async with turn:
            descriptor = await self._acquire(pdh, fill)
        try:
            yield self._directory / pdh
        finally:
            os.close(descriptor)

    async def _acquire(self, pdh: str, fill: Fill) -> int:
        """A descriptor that holds the shared lock of a complete directory."""
        while True:
            descriptor = os.open(self._lock_path(pdh), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                await self._flock(descriptor, fcntl.LOCK_SH)
                if not self._ready(pdh, descriptor):
                    await self._flock(descriptor, fcntl.LOCK_EX)
                    if self._is_current(pdh, descriptor) and not self._ready(pdh, descriptor):
                        await self._build(pdh, descriptor, fill)
                    # Another process may intervene: check the built directory again.
                    await self._flock(descriptor, fcntl.LOCK_SH)
                if self._ready(pdh, descriptor):
                    os.utime(descriptor)
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    async def _flock(self, descriptor: int, how: int) -> None:
        # Waiting in a thread could not be cancelled.
        while True:
            try:
                return fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                await self._sleep(_POLL)

    def _lock_path(self, pdh: str) -> Path:
        return self._directory / f"{pdh}.lock"

    def _is_current(self, pdh: str, descriptor: int) -> bool:
        """Whether the locked file is still the one that others will lock."""
        try:
            return self._lock_path(pdh).stat().st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            return False

    def _ready(self, pdh: str, descriptor: int) -> bool:
        state = _read_state(os.pread(descriptor, _BLOCK, 0))
        complete = (
            state is not None and state.boot == self._boot and (self._directory / pdh).is_dir()
        )
        return complete and self._is_current(pdh, descriptor)

    async def _build(self, pdh: str, descriptor: int, fill: Fill) -> None:
        part = self._directory / f"{pdh}.part"
        await asyncio.to_thread(self._start_over, pdh, descriptor)
        try:
            await fill(part)
            size = await asyncio.to_thread(
                _make_read_only, part, keep_modes=_GIT.fullmatch(pdh) is not None
            )
        except BaseException:
            # Nobody else may build before this is gone, and the lock is let go right after.
            self._discard(part)
            with suppress(FileNotFoundError):
                self._lock_path(pdh).unlink()
            raise
        part.rename(self._directory / pdh)
        os.pwrite(descriptor, msgspec.json.encode(_State(bytes=size, boot=self._boot)), 0)
        await asyncio.to_thread(self._evict)

    def _start_over(self, pdh: str, descriptor: int) -> None:
        os.ftruncate(descriptor, 0)
        part = self._directory / f"{pdh}.part"
        self._discard(part)
        self._discard(self._directory / pdh)
        part.mkdir(mode=0o700)

    def _discard(self, root: Path) -> None:
        """Remove a directory from the cache. Raises OSError."""
        removal.discard(root, aside=self._directory.parent / removal.NAME)

    def _evict(self) -> None:
        kept = []
        for lock in self._directory.glob("*.lock"):
            with suppress(FileNotFoundError):
                state = _read_state(lock.read_bytes())
                kept.append((lock.stat().st_mtime_ns, state.bytes if state else 0, lock))
        total = sum(size for _, size, _ in kept)
        for _, size, lock in sorted(kept):
            if total <= self._limit:
                return
            if self._remove(lock):
                total -= size

    def _remove(self, lock: Path) -> bool:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            self._discard(lock.with_suffix(".part"))
            self._discard(lock.with_suffix(""))
            lock.unlink()
        except (BlockingIOError, FileNotFoundError):
            return False
        except OSError as error:
            # One that can neither be removed nor moved does not keep the others.
            _logger.warning("%s: cannot be removed: %s", lock.with_suffix(""), error)
            return False
        finally:
            os.close(descriptor)
        return True


def _read_state(data: bytes) -> _State | None:
    try:
        return msgspec.json.decode(data, type=_State)
    except msgspec.DecodeError:
        return None


def _make_read_only(root: Path, *, keep_modes: bool) -> int:
    """Take write permission from everything below; the size on disk, roughly.

    Collections do not say which files are programs, so all may be run, as Arvados' clients show
    them.
    """
    size = _BLOCK
    with Tree.open(root) as tree:
        for folder, _, entry in tree.walk_at(max_depth=_MOST_DEPTH):
            if entry.is_dir(follow_symlinks=False):
                # It is entered all the same: that takes no right to write.
                os.chmod(entry.name, 0o555, dir_fd=folder)  # noqa: S103 - its own directory is for root alone
                size += _BLOCK
            else:
                size += _make_file_read_only(folder, entry.name, keep_modes=keep_modes)
        os.fchmod(tree.descriptor, 0o555)
    return size


def _make_file_read_only(folder: int, name: str, *, keep_modes: bool) -> int:
    """Take write permission from one entry that is no directory; its size on disk, roughly."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISREG(found.st_mode):
        os.chmod(name, 0o444 if keep_modes and not found.st_mode & 0o100 else 0o555, dir_fd=folder)
    return found.st_size // _BLOCK * _BLOCK + _BLOCK

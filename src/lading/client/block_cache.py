"""Blocks kept as files: a cache that any number of processes of one user share.

    <directory>/<3 digits>/<hash>        a block, whole; its time of change is when it was last
    asked for <directory>/<3 digits>/<hash>.part   on its way; locked (flock) by the one who fetches
    it, the others wait for it <directory>/ledger                   bytes in all, as text; locked
    while room is made or given back

Room is taken in the ledger before a byte is written, so that the limit holds with any number of
processes. When there is none left, the blocks that were not asked for longest go. A lock dies with
its process: what a killed one left is found and removed when room is made next, and counts until
then. Files are not synced to disk, so the first time that a process meets a block its hash is
verified; one that does not match is fetched again.

A block that a server on this machine lends (`client.fd_receiving`) is verified and not kept: its
file is there. Should that change while it is read, it is verified again (`is_sound`).

A block that finds no room (the limit is too small, the disk is full) is given in memory and not
kept.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lading.client.retry import Sleep
from lading.core.data import locator as locators

Fetch = Callable[[str, int], Awaitable[None]]
"""Writes the block at a locator to the beginning of an open file, verified (`BlockClient.save`)."""
Borrow = Callable[[str], Awaitable[int | None]]
"""A descriptor of what should be the block at a locator, not verified, if there is one
(`client.fd_receiving`).
"""
_File = tuple[int, int]
_Stamp = tuple[int, int, int]

_POLL = 0.02
_PAGE = 4096
_READ = 1 << 18
_SLACK = 16
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_logger = logging.getLogger("lading.blockfiles")


@dataclass(slots=True)
class CacheCounts:
    """What one process asked of the cache: blocks found, lent, fetched, and fetched without being
    kept.
    """

    found: int = 0
    lent: int = 0
    fetched: int = 0
    fetched_bytes: int = 0
    not_kept: int = 0
    damaged: int = 0


class BlockFiles:
    """The cache below `directory`, of at most `limit_bytes` as the disk counts them."""

    def __init__(
        self,
        directory: Path,
        limit_bytes: int,
        *,
        fetch: Fetch,
        borrow: Borrow | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.counts = CacheCounts()
        self._directory = directory
        self._limit = limit_bytes
        self._fetch = fetch
        self._borrow = borrow
        self._sleep = sleep
        # Inode and time of birth of the files whose content this process has seen to be right.
        self._verified: dict[str, int] = {}
        # What files that were lent were like when their content was seen to be right.
        self._lent: dict[_File, tuple[str, _Stamp]] = {}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def open(self, locator: str) -> int:
        """A descriptor of the block's bytes, which the caller closes; fetched when it is not there.

        Raises what `fetch` raises, and OSError when the cache directory cannot be used.
        """
        block = locators.parse(locator)
        size = block.size or 0
        while True:
            found = await asyncio.to_thread(self._find, block.hash, size)
            if found is not None:
                self.counts.found += 1
                return found
            found = await self._borrow(locator) if self._borrow is not None and size else None
            if found is not None and await self._accepts(found, block.hash, size):
                return found
            found = await self._bring(locator, block.hash, size)
            if found is not None:
                return found

    def holds(self, locator: str) -> bool:
        """Whether the block is there now, verified or not."""
        return self._path(locator[:32]).exists()

    def is_sound(self, descriptor: int) -> bool:
        """Whether what a descriptor of `open` gives is what was verified; a file that was lent
        could be changed.
        """
        if not self._lent:
            return True
        file, stamp = _look(descriptor)
        known = self._lent.get(file)
        return known is None or known[1] == stamp

    # Finding.

    def _path(self, digest: str) -> Path:
        return self._directory / digest[:3] / digest

    def _find(self, digest: str, size: int) -> int | None:
        try:
            descriptor = os.open(self._path(digest), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        state = os.fstat(descriptor)
        if state.st_size == size and (
            self._verified.get(digest) == state.st_ino or _hash(descriptor) == digest
        ):
            self._keep_in_mind(digest, descriptor)
            with suppress(OSError):
                os.utime(self._path(digest))
            return descriptor
        os.close(descriptor)
        self.counts.damaged += 1
        _logger.warning("block=%s the copy in the cache is damaged; it is fetched again", digest)
        with self._ledger() as ledger:
            self._drop(self._path(digest), ledger)
        return None

    def _keep_in_mind(self, digest: str, descriptor: int) -> None:
        state = os.fstat(descriptor)
        self._verified[digest] = state.st_ino
        # It may have the number of a file that was lent and is gone.
        self._lent.pop((state.st_dev, state.st_ino), None)

    # Borrowing.

    async def _accepts(self, descriptor: int, digest: str, size: int) -> bool:
        """Whether a file that was lent is the block; closed if not."""
        kept = False
        try:
            # The thread has a descriptor of its own: it cannot be stopped when nobody waits for it
            # any more.
            kept = await asyncio.to_thread(self._check_lent, os.dup(descriptor), digest, size)
        finally:
            if not kept:
                os.close(descriptor)
        return kept

    def _check_lent(self, descriptor: int, digest: str, size: int) -> bool:
        try:
            file, stamp = _look(descriptor)
            if stamp[0] == size and (
                self._lent.get(file) == (digest, stamp) or _hash(descriptor) == digest
            ):
                self._lent[file] = digest, stamp
                self.counts.lent += 1
                return True
            _logger.warning("block=%s the file that was lent is damaged; it is fetched", digest)
        except OSError as error:
            _logger.warning(
                "block=%s the file that was lent cannot be read: %s; it is fetched", digest, error
            )
        finally:
            os.close(descriptor)
        self.counts.damaged += 1
        return False

    # Fetching.

    async def _bring(self, locator: str, digest: str, size: int) -> int | None:
        """Fetch the block; None when another process was faster."""
        part = self._path(digest).with_suffix(".part")
        try:
            descriptor = await asyncio.to_thread(_open_part, part)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            return await self._bring_to_memory(locator, size)
        try:
            await self._lock(descriptor)
            if not _is_same(part, descriptor) or self._path(digest).exists():
                self._forget_part(digest, part, descriptor)
                os.close(descriptor)
                return None
            kept = await self._bring_to_disk(locator, digest, descriptor)
        except BaseException:
            self._give_back(part, descriptor)
            os.close(descriptor)
            raise
        if kept:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return descriptor
        self._give_back(part, descriptor)
        os.close(descriptor)
        return await self._bring_to_memory(locator, size)

    async def _bring_to_disk(self, locator: str, digest: str, descriptor: int) -> bool:
        """Whether there was room."""
        path, size = self._path(digest), locators.parse(locator).size or 0
        if not await asyncio.to_thread(self._take_room, descriptor, size):
            return False
        try:
            await self._fetch(locator, descriptor)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            _logger.warning("directory=%s the disk is full; blocks are not kept", self._directory)
            return False
        path.with_suffix(".part").rename(path)
        self._keep_in_mind(digest, descriptor)
        self.counts.fetched += 1
        self.counts.fetched_bytes += size
        return True

    async def _bring_to_memory(self, locator: str, size: int) -> int:
        descriptor = os.memfd_create("block", os.MFD_CLOEXEC)
        try:
            await self._fetch(locator, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self.counts.fetched += 1
        self.counts.not_kept += 1
        self.counts.fetched_bytes += size
        return descriptor

    async def _lock(self, descriptor: int) -> None:
        # Waiting in a thread could not be cancelled.
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await self._sleep(_POLL)

    # Room.

    @contextmanager
    def _ledger(self) -> Iterator[int]:
        """A descriptor of the ledger, locked."""
        descriptor = os.open(
            self._directory / "ledger", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _take_room(self, descriptor: int, size: int) -> bool:
        """Count `size` bytes for the file, which gets that size, evicting others; False when there
        is no room.
        """
        wanted = _on_disk(size)
        if wanted > self._limit:
            return False
        try:
            with self._ledger() as ledger:
                total = _read_total(ledger)
                if total is None or total + wanted > self._limit:
                    total = self._make_room(wanted)
                if total + wanted > self._limit:
                    return False
                os.ftruncate(descriptor, size)
                _write_total(ledger, total + wanted)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            return False
        return True

    def _make_room(self, wanted: int) -> int:
        """Evict until `wanted` bytes fit, and a little more so that this is rare; the bytes that
        are left.
        """
        total, kept = 0, list[tuple[int, int, Path]]()
        for path in self._directory.glob("???/*"):
            with suppress(FileNotFoundError):
                state = path.stat()
                if path.suffix == ".part":
                    total += 0 if _remove_abandoned(path) else _on_disk(state.st_size)
                    continue
                kept.append((state.st_mtime_ns, _on_disk(state.st_size), path))
                total += _on_disk(state.st_size)
        goal = (
            max(self._limit - self._limit // _SLACK - wanted, 0)
            if total + wanted > self._limit
            else total
        )
        for _, size, path in sorted(kept):
            if total <= goal:
                break
            path.unlink(missing_ok=True)
            total -= size
        return total

    def _drop(self, path: Path, ledger: int) -> None:
        with suppress(FileNotFoundError):
            size = path.stat().st_size
            path.unlink()
            total = _read_total(ledger)
            if total is not None:
                _write_total(ledger, max(total - _on_disk(size), 0))

    def _give_back(self, part: Path, descriptor: int) -> None:
        """Remove a file that will not be complete, with its room."""
        with suppress(OSError):
            if _is_same(part, descriptor):
                with self._ledger() as ledger:
                    self._drop(part, ledger)

    def _forget_part(self, digest: str, part: Path, descriptor: int) -> None:
        """Remove what a process opened that came when the block was there already."""
        if self._path(digest).exists():
            self._give_back(part, descriptor)


def _open_part(part: Path) -> int:
    part.parent.mkdir(mode=0o700, exist_ok=True)
    return os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _remove_abandoned(part: Path) -> bool:
    """Remove a file on its way whose process is gone."""
    descriptor = os.open(part, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_same(part, descriptor):
            part.unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _hash(descriptor: int) -> str:
    digest, at = hashlib.md5(usedforsecurity=False), 0
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    # Memory that stays in the processor's cache: new memory for each piece would cost more than to
    # read it.
    piece = memoryview(bytearray(_READ))
    while count := os.preadv(descriptor, [piece], at):
        digest.update(piece[:count])
        at += count
    # Who reads here and there goes on with the same open file.
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_NORMAL)
    return digest.hexdigest()


def _look(descriptor: int) -> tuple[_File, _Stamp]:
    """Which file it is, and what changes when somebody writes to it."""
    state = os.fstat(descriptor)
    return (state.st_dev, state.st_ino), (state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _on_disk(size: int) -> int:
    """Bytes that a file takes, roughly: whole pages and its entry. One without a size has not got
    its room yet.
    """
    return (size + _PAGE - 1) // _PAGE * _PAGE + _PAGE if size else 0


def _read_total(ledger: int) -> int | None:
    text = os.pread(ledger, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _write_total(ledger: int, total: int) -> None:
    os.pwrite(ledger, b"%020d\n" % total, 0)

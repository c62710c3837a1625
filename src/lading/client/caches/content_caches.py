"""A cache on disk that processes of one user share: blocks as files. It is built on `disk_cache`.

`BlockFiles` keeps blocks as files:

    <directory>/<3 digits>/<hash>        a block, whole; its time of change is the last request
    <directory>/<3 digits>/<hash>.part   a block that a process fetches; the others wait for it
    <directory>/ledger                   bytes in all, as text

Room is taken in the ledger before a byte is written, so that the limit holds with any number of
processes. The remains of a killed process are removed when room is made next, and count until then.
Files are not synced to disk: the first time that a process meets a block its hash is verified; a
block that does not match is fetched again.

A block that a server on this machine lends (`client.fd_receiving`) is verified and not copied, as
its file is on this machine. If the file changes while it is read, it is verified again
(`is_sound`).

A block without space (the limit is too small, the disk is full) is returned in memory and not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from lading.client.caches.disk_cache import PAGE, DiskCache, EntryClaim
from lading.client.caches.entry_files import CacheLayout, is_full
from lading.client.retry import Sleep
from lading.core.data import locator as locators
from lading.process.concurrency import in_thread
from lading.process.portable import FileAdvice, advise, open_nameless

Fetch = Callable[[str, int], Awaitable[None]]
"""Writes the block at a locator to the beginning of an open file, verified (`BlockClient.save`)."""
Borrow = Callable[[str], Awaitable[int | None]]
"""A descriptor of the block at a locator, not verified, if there is one (`client.fd_receiving`).
"""
_File = tuple[int, int]
_Stamp = tuple[int, int, int]

_READ = 1 << 18
_LAYOUT = CacheLayout(pattern="???/*", fan_out=3, page=PAGE, has_ledger=True)
_logger = logging.getLogger("lading.blockfiles")


@dataclass(slots=True)
class CacheCounts:
    """Requests of one process to the cache: hits, and blocks that were lent, fetched, and fetched
    without being kept.
    """

    hits: int = 0
    lent: int = 0
    fetched: int = 0
    fetched_bytes: int = 0
    not_kept: int = 0
    damaged: int = 0


def md5_of_file(descriptor: int) -> str:
    """MD5 of an open file, in hexadecimal. Raises OSError."""
    digest, at = hashlib.md5(usedforsecurity=False), 0
    advise(descriptor, FileAdvice.SEQUENTIAL)
    # Memory that stays in the processor's cache: new memory for each piece would cost more than to
    # read it.
    piece = memoryview(bytearray(_READ))
    while count := os.preadv(descriptor, [piece], at):
        digest.update(piece[:count])
        at += count
    # Readers of single parts continue with the same open file.
    advise(descriptor, FileAdvice.NORMAL)
    return digest.hexdigest()


class BlockFiles:
    """The cache below `directory`, of at most `limit_bytes` as the disk counts them.

    `md5` reads the whole file of a descriptor, in a thread, and returns its hash in hexadecimal.
    """

    def __init__(
        self,
        directory: Path,
        limit_bytes: int,
        *,
        fetch: Fetch,
        borrow: Borrow | None = None,
        sleep: Sleep = asyncio.sleep,
        md5: Callable[[int], str] = md5_of_file,
    ) -> None:
        self.counts = CacheCounts()
        self._md5 = md5
        self._directory = directory
        self._cache = DiskCache(directory, limit_bytes, layout=_LAYOUT, sleep=sleep)
        self._fetch = fetch
        self._borrow = borrow
        # Inode and time of birth of the files whose content this process has seen to be right.
        self._verified: dict[str, int] = {}
        # Size and times of lent files at their verification, by device and inode.
        self._lent: dict[_File, tuple[str, _Stamp]] = {}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def open(self, locator: str) -> int:
        """A descriptor of the block's bytes, which the caller closes; fetched when it is absent.
        Raises the errors of `fetch`, and OSError when the cache directory cannot be used.
        """
        block = locators.parse(locator)
        size = block.size or 0
        while True:
            descriptor = await asyncio.to_thread(self._find, block.hash, size)
            if descriptor is not None:
                self.counts.hits += 1
                return descriptor
            descriptor = await self._borrow(locator) if self._borrow is not None and size else None
            if descriptor is not None and await self._accepts(descriptor, block.hash, size):
                return descriptor
            descriptor = await self._bring(locator, block.hash, size)
            if descriptor is not None:
                return descriptor

    def holds(self, locator: str) -> bool:
        """Whether the block is there now, verified or not."""
        return self._cache.holds(locator[:32])

    def is_sound(self, descriptor: int) -> bool:
        """Whether a descriptor of `open` still has the verified bytes; a file that was lent could
        be changed.
        """
        if not self._lent:
            return True
        file, stamp = _look(descriptor)
        known = self._lent.get(file)
        return known is None or known[1] == stamp

    # Finding.

    def _find(self, digest: str, size: int) -> int | None:
        descriptor = self._cache.hold(digest)
        if descriptor is None:
            return None
        state = os.fstat(descriptor)
        if state.st_size == size and (
            self._verified.get(digest) == state.st_ino or self._md5(descriptor) == digest
        ):
            self._keep_in_mind(digest, descriptor)
            return descriptor
        os.close(descriptor)
        self.counts.damaged += 1
        _logger.warning("block=%s the copy in the cache is damaged; it is fetched again", digest)
        self._cache.remove(digest)
        return None

    def _keep_in_mind(self, digest: str, descriptor: int) -> None:
        state = os.fstat(descriptor)
        self._verified[digest] = state.st_ino
        # The inode number may have belonged to a lent file that is gone.
        self._lent.pop((state.st_dev, state.st_ino), None)

    # Borrowing.

    # Lent files.
    async def _accepts(self, descriptor: int, digest: str, size: int) -> bool:
        """Whether a lent file is the block; otherwise its descriptor is closed."""
        is_sound = False
        try:
            # The thread gets its own descriptor: after a cancellation it continues, when this one
            # may be closed.
            is_sound = await asyncio.to_thread(self._check_lent, os.dup(descriptor), digest, size)
        finally:
            if not is_sound:
                os.close(descriptor)
        return is_sound

    def _check_lent(self, descriptor: int, digest: str, size: int) -> bool:
        try:
            file, stamp = _look(descriptor)
            if stamp[0] == size and (
                self._lent.get(file) == (digest, stamp) or self._md5(descriptor) == digest
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
        try:
            claim = await self._cache.claim(digest)
        except OSError as error:
            if not is_full(error):
                raise
            return await self._bring_to_memory(locator, size)
        if claim is None:
            return None
        with claim:
            if await self._bring_to_disk(claim, locator, size):
                self._keep_in_mind(digest, claim.descriptor)
                return claim.detach()
        return await self._bring_to_memory(locator, size)

    async def _bring_to_disk(self, claim: EntryClaim, locator: str, size: int) -> bool:
        """Whether there was room."""
        if not await in_thread(lambda _, __: claim.reserve(size), is_waited_for=True):
            return False
        try:
            await self._fetch(locator, claim.descriptor)
        except OSError as error:
            if not is_full(error):
                raise
            _logger.warning("directory=%s the disk is full; blocks are not kept", self._directory)
            return False
        claim.publish()
        self.counts.fetched += 1
        self.counts.fetched_bytes += size
        return True

    async def _bring_to_memory(self, locator: str, size: int) -> int:
        descriptor = open_nameless("block")
        try:
            await self._fetch(locator, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self.counts.fetched += 1
        self.counts.not_kept += 1
        self.counts.fetched_bytes += size
        return descriptor


def _look(descriptor: int) -> tuple[_File, _Stamp]:
    """Device and inode of a file, and its size and times, which change when it is written."""
    state = os.fstat(descriptor)
    return (state.st_dev, state.st_ino), (state.st_size, state.st_mtime_ns, state.st_ctime_ns)

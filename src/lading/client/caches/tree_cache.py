"""A cache of directory trees: collections laid out as files, layers of images.

`TreeCache` keeps collections as directories, shared by all containers that read them:

    <directory>/<key>          the files, read-only: all 0555, as Arvados shows them; files of git
                               trees 0555 or 0444
    <directory>/<key>.lock     the lock of the directory, with its size and the boot that built it
    <directory>/<key>.part     a directory that is built or removed
    <directory>/ledger         bytes in all, roughly, as text

The key is a portable data hash, or `git-` and the hash of a git tree or blob. A directory is not
synced to disk: one from before the last start of the machine counts as absent. It is built on
`disk_cache`.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path

from lading.client.caches.disk_cache import DiskCache, Durability, EntryClaim
from lading.client.caches.entry_files import CacheLayout
from lading.client.retry import Sleep
from lading.core.errors import Invalid
from lading.core.ids import is_pdh
from lading.process import removal
from lading.process.concurrency import in_thread
from lading.process.confined import ConfinedTree

Fill = Callable[[Path], Awaitable[None]]
"""Writes the collection's files below the given empty directory (`downloads.download` does)."""
# The name of a tree of a git commit, beside the names of collections.
_GIT = re.compile(r"git-[0-9a-f]{40}")
# Bytes of a block of common file systems: the least that a file takes.
_BLOCK = 4096
# Nested directories; a limit is required, and collections have far fewer.
_MOST_DEPTH = 1 << 16
# Only a path with a lock file is an entry: an archive that is being received lies beside its tree.
_TREE_LAYOUT = CacheLayout(lock="{}.lock", pattern="*.lock", has_ledger=True)


@dataclass
class TreeCache:
    """Read-only directories by portable data hash, kept below `directory` up to about
    `limit_bytes`. The directory is made when it is first needed.

    Any number of processes may use it at a time.
    """

    directory: Path
    limit_bytes: int
    _: KW_ONLY
    sleep: Sleep = asyncio.sleep
    leases: set[int] = field(default_factory=set)
    """Descriptors that keep the leased directories."""

    @cached_property
    def _cache(self) -> DiskCache:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return DiskCache(
            self.directory,
            self.limit_bytes,
            layout=_TREE_LAYOUT,
            durability=Durability.BOOT,
            aside=self.directory.parent / removal.NAME,
            sleep=self.sleep,
        )

    def holds(self, pdh: str) -> bool:
        """Whether the directory is complete now."""
        return self._cache.holds(pdh)

    @asynccontextmanager
    async def lease(self, pdh: str, fill: Fill) -> AsyncGenerator[Path]:
        """The directory of the collection, which exists while the context is open; `fill` is called
        if it is absent.

        Raises Invalid when `pdh` is malformed, and the errors of `fill`.
        """
        if not (is_pdh(pdh) or _GIT.fullmatch(pdh)):
            raise Invalid(f"{pdh}: not a portable data hash")
        keep_modes = _GIT.fullmatch(pdh) is not None

        async def build(claim: EntryClaim) -> None:
            part = claim.part
            part.mkdir(mode=0o700)
            await fill(part)
            size = await in_thread(
                lambda _, __: _make_read_only(part, keep_modes=keep_modes), is_waited_for=True
            )
            claim.publish(size)
            await asyncio.to_thread(self._cache.admit, size)

        lease = await self._cache.acquire(pdh, build)
        self.leases.add(lease)
        try:
            yield self._cache.path(pdh)
        finally:
            self.leases.discard(lease)
            os.close(lease)


def _make_read_only(root: Path, *, keep_modes: bool) -> int:
    """Remove the write permission from everything below; return the size on disk, roughly.

    Collections do not record which files are executable, so all files are made so, as Arvados'
    clients show them.
    """
    size = _BLOCK
    with ConfinedTree.open(root) as tree:
        for folder, _, entry in tree.walk_at(max_depth=_MOST_DEPTH):
            if entry.is_dir(follow_symlinks=False):
                # The walk enters the directory next, which needs no write permission. The directory
                # of the cache is accessible to root only.
                os.chmod(entry.name, 0o555, dir_fd=folder)  # noqa: S103
                size += _BLOCK
            else:
                size += _make_file_read_only(folder, entry.name, keep_modes=keep_modes)
        os.fchmod(tree.descriptor, 0o555)
    return size


def _make_file_read_only(folder: int, name: str, *, keep_modes: bool) -> int:
    """Remove the write permission from one entry that is not a directory; return its size on disk,
    roughly.
    """
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISREG(found.st_mode):
        os.chmod(name, 0o444 if keep_modes and not found.st_mode & 0o100 else 0o555, dir_fd=folder)
    return found.st_size // _BLOCK * _BLOCK + _BLOCK

"""The source of collections for mounts: files from the cache, manifests from the API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.caches.disk_space import check_room
from lading.client.caches.tree_cache import TreeCache
from lading.core.containers.disk_space import Amount
from lading.core.containers.mounting.mount_steps import (
    GitTree,
)
from lading.core.errors import ExecutionError, Failure, RequestError

# Many containers mount neither collections nor git trees, and a start waits for each import: what
# these need is imported when there is one.
if TYPE_CHECKING:
    from lading.core.data.filetree import FileTree

# Characters of a manifest that is parsed in a thread, so that the event loop is not delayed.
_LARGE_TEXT = 1 << 20
# Collections that one list call asks for; larger ones are asked for alone, so that its answer stays
# within some 14 MB.
_LISTED, _LISTED_FILES, _LISTED_BYTES = 100, 1000, 1 << 36
# Records of one answer, the most that a server gives.
_PAGE = 1000


@dataclass(slots=True)
class Inputs:
    """Source of collections: files from the cache, manifests from the API, each fetched once."""

    api: ApiClient
    blocks: BlockClient
    cache: TreeCache
    fetch_git_tree: Callable[[GitTree, Path], Awaitable[None]]
    """Stores a git tree or blob in a directory (`SupervisorSession.fetch_git_tree`)."""
    large: int = 0
    """Bytes from which a collection that is not cached is mounted; 0: never."""
    reserve: Amount = Amount()
    """The configured reserve of the disk."""
    _trees: dict[str, FileTree] = field(default_factory=dict)
    _coming: int = 0
    """Bytes of the collections that are downloaded now."""

    async def tree(self, pdh: str) -> FileTree:
        """The files of a collection. Raises ExecutionError(INPUT) when it cannot be read."""
        from lading.core.data.filetree import from_manifest

        if pdh not in self._trees:
            try:
                record = await self.api.get("collections", pdh, select=("uuid", "manifest_text"))
            except RequestError as error:
                raise ExecutionError(f"collection {pdh}: {error.message}", Failure.INPUT) from error
            text = record["manifest_text"]
            is_large = len(text) > _LARGE_TEXT
            self._trees[pdh] = (
                await asyncio.to_thread(from_manifest, text) if is_large else from_manifest(text)
            )
        return self._trees[pdh]

    async def read_trees(self, pdhs: Sequence[str]) -> None:
        """Read the files of several collections by few calls. `tree` reads those that are still
        missing: large ones, all for a token that may not list, and those that cannot be read.
        """
        wanted = [pdh for pdh in pdhs if pdh not in self._trees]
        for start in range(0, len(wanted), _LISTED):
            asked = wanted[start : start + _LISTED]
            if len(asked) > 1:
                with suppress(RequestError):
                    await self._list_trees(asked)

    async def _list_trees(self, pdhs: Sequence[str]) -> None:
        from lading.core.data.filetree import from_manifest

        rows = await self.api.list(
            "collections",
            filters=[
                ["portable_data_hash", "in", pdhs],
                ["file_count", "<=", _LISTED_FILES],
                ["file_size_total", "<=", _LISTED_BYTES],
            ],
            select=("portable_data_hash", "manifest_text", "trash_at"),
            limit=_PAGE,
            # A content that was reused often has many collections.
            distinct=True,
        )
        # The one that is kept longest, the last one here, is signed for the longest time.
        rows.sort(key=lambda row: (row["trash_at"] is None, row["trash_at"] or ""))
        texts = {row["portable_data_hash"]: row["manifest_text"] for row in rows}
        self._trees |= {pdh: from_manifest(manifest_text) for pdh, manifest_text in texts.items()}

    async def is_large(self, pdh: str) -> bool:
        """Whether mounting is better than downloading. Raises as `tree`."""
        return bool(self.large) and not self.cache.holds(pdh) and await self.size(pdh) >= self.large

    async def size(self, pdh: str) -> int:
        """Bytes of the files of a collection. Raises as `tree`."""
        from lading.core.data.filetree import total_size

        return total_size(await self.tree(pdh))

    async def fill(self, pdh: str, directory: Path) -> None:
        """Download the collection into `directory`. Raises ExecutionError(DISK) when there is no
        space for it.
        """
        from lading.client.files.downloads import download

        tree, size = await self.tree(pdh), await self.size(pdh)
        self._coming += size
        others = "" if self._coming == size else " and others that are fetched with it"
        try:
            what = f"collection {pdh}{others}"
            check_room(directory.parent, self.reserve, need=self._coming, subject=what)
            await download(self.blocks, tree, directory)
        finally:
            self._coming -= size

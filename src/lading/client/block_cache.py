"""A cache of the last few blocks that were read."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

from lading.core.data import locator as locators


class BlockSource(Protocol):
    """A store of blocks; `BlockClient` implements it."""

    async def get(self, locator: str) -> bytes:
        """The block's bytes, their hash verified."""


class BlockCache:
    """The last few blocks that were read: `keep` of them, or those of `keep_bytes` bytes together.
    Equal requests share one fetch.
    """

    def __init__(
        self, blocks: BlockSource, *, keep: int = 2, keep_bytes: int | None = None
    ) -> None:
        self._blocks = blocks
        self._keep, self._keep_bytes = keep, keep_bytes
        self._fetches: OrderedDict[str, asyncio.Task[bytes]] = OrderedDict()
        self._sizes: dict[str, int] = {}

    def expect(self, locator: str) -> None:
        """Start to fetch a block that is needed soon."""
        self._fetch(locator)

    async def get(self, locator: str) -> bytes:
        """The block's bytes. Raises as `BlockClient.get`."""
        fetch = self._fetch(locator)
        try:
            # Shielded: a cancelled reader must not cancel the fetch that others wait for.
            return await asyncio.shield(fetch)
        finally:
            # A failure is not kept: the next reader tries again.
            if fetch.done() and (fetch.cancelled() or fetch.exception() is not None):
                self._fetches.pop(locator[:32], None)
                self._sizes.pop(locator[:32], None)

    async def close(self) -> None:
        """Cancel all fetches."""
        fetches = list(self._fetches.values())
        self._fetches.clear()
        self._sizes.clear()
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)

    def _fetch(self, locator: str) -> asyncio.Task[bytes]:
        key = locator[:32]
        fetch = self._fetches.get(key)
        if fetch is None:
            fetch = self._fetches[key] = asyncio.create_task(
                self._blocks.get(locator), name=f"block {key}"
            )
            self._sizes[key] = locators.parse(locator).size or 0
            self._drop_old()
        self._fetches.move_to_end(key)
        return fetch

    def _drop_old(self) -> None:
        """Drop the blocks that were not read for longest, but for the last one. Fetches in progress
        stay, so that there may be more than the limit for a moment.
        """
        count, size = len(self._fetches), sum(self._sizes.values())
        for old in list(self._fetches)[:-1]:
            is_within = (
                count <= self._keep if self._keep_bytes is None else size <= self._keep_bytes
            )
            if is_within:
                return
            if self._fetches[old].done():
                del self._fetches[old]
                count, size = count - 1, size - self._sizes.pop(old)

"""A cache of the last few blocks that were read."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from lading.client.blocks import BlockClient


class BlockCache:
    """The last few blocks that were read. Equal requests share one fetch."""

    def __init__(self, blocks: BlockClient, *, keep: int = 2) -> None:
        self._blocks = blocks
        self._keep = keep
        self._fetches: OrderedDict[str, asyncio.Task[bytes]] = OrderedDict()

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

    async def close(self) -> None:
        """Cancel all fetches."""
        fetches = list(self._fetches.values())
        self._fetches.clear()
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
            # Fetches in progress are never dropped, so that there may be more than `keep` for a
            # moment.
            for old in list(self._fetches)[: -self._keep]:
                if self._fetches[old].done():
                    del self._fetches[old]
        self._fetches.move_to_end(key)
        return fetch

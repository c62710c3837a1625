"""Ranges of stored files: their blocks are fetched as they are needed, and the last ones kept."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from itertools import accumulate

from lading.client.block_cache import BlockCache
from lading.core.data.filetree import File
from lading.core.errors import Corrupt, Forbidden, Malformed, Unauthenticated

Renew = Callable[[str], Awaitable[str]]
"""Returns a locator with a new signature for one whose signature the store refuses."""
_REFUSED = (Malformed, Unauthenticated, Forbidden)


class RangeReader:
    """Reads ranges of one file. A range that begins where the last one has ended has the next block
    fetched ahead.
    """

    def __init__(self, file: File, blocks: BlockCache, renew: Renew | None = None) -> None:
        self._file, self._blocks, self._renew = file, blocks, renew
        self._starts = list(accumulate((segment.length for segment in file.segments), initial=0))
        self.size: int = self._starts[-1]
        """Bytes of the file."""
        self._last_end = 0

    async def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to, not including, `end`, as far as they exist. Raises as
        `BlockClient.get`.
        """
        end = min(end, self.size)
        if start >= end:
            return b""
        pieces: list[bytes] = []
        position, number = start, bisect_right(self._starts, start) - 1
        while position < end:
            segment = self._file.segments[number]
            inside = position - self._starts[number]
            length = min(segment.length - inside, end - position)
            block = await self._block(segment.locator)
            piece = block[segment.offset + inside : segment.offset + inside + length]
            if len(piece) != length:
                raise Corrupt(f"{segment.locator[:32]}: the file reaches beyond this block")
            pieces.append(piece)
            position, number = position + length, number + 1
        if start == self._last_end and number < len(self._file.segments):
            self._blocks.expect(self._file.segments[number].locator)
        self._last_end = end
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _block(self, locator: str) -> bytes:
        try:
            return await self._blocks.get(locator)
        except _REFUSED:
            if self._renew is None:
                raise
            return await self._blocks.get(await self._renew(locator))

"""Reads files of collections for the WebDAV server, in little memory.

A read uses one piece of memory and one file descriptor: a block is streamed into a cache on disk,
verified there and read in pieces, while the next block is fetched. Blocks are fetched with the
token of the reader. A cached block is given to every reader with a signed locator from the API.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from lading.client.blocks import BlockClient
from lading.client.caches.content_caches import BlockFiles
from lading.client.transport import Transport
from lading.core.data.filetree import File, Segment, bare
from lading.core.data.locator import EMPTY_HASH
from lading.core.errors import Corrupt, LadingError
from lading.fileserving.byte_ranges import Span
from lading.fileserving.collection_cache import RETRY

# Bytes read and sent at a time.
_PIECE: Final = 1 << 18
# Smaller reads take less time than a thread.
_SMALL: Final = 1 << 16


class FileReader:
    """Reads through one cache below `directory`, of at most `limit_bytes`, in pieces of at most
    `piece` bytes. Pieces of up to `small` bytes are read in the loop, others in a thread.
    """

    def __init__(
        self,
        transport: Transport,
        directory: Path,
        limit_bytes: int,
        *,
        piece: int = _PIECE,
        small: int = _SMALL,
    ) -> None:
        self._piece, self._small = piece, small
        self._transport = transport
        self._token: ContextVar[str] = ContextVar("token of the reader")
        self._files = BlockFiles(directory, limit_bytes, fetch=self._fetch)

    @asynccontextmanager
    async def reading(self, token: str) -> AsyncGenerator[Reading]:
        """Open a session that reads files with a token; consecutive reads of one block share the
        open file of the block.
        """
        # Blocks are fetched in tasks that are created later and inherit this context.
        self._token.set(token)
        found = Reading(self._files, piece=self._piece, small=self._small)
        try:
            yield found
        finally:
            await found.close()

    async def _fetch(self, locator: str, descriptor: int) -> None:
        await BlockClient(self._transport, self._token.get(), retry=RETRY).save(locator, descriptor)


class Reading:
    """One session: the open block and the block fetched ahead."""

    def __init__(self, files: BlockFiles, *, piece: int, small: int) -> None:
        self._files, self._piece, self._small = files, piece, small
        self._opens: OrderedDict[str, asyncio.Task[int]] = OrderedDict()

    async def read(self, file: File, span: Span) -> AsyncGenerator[bytes]:
        """The bytes of a range of a file, in pieces. Raises NotFound, Corrupt, Unavailable."""
        parts = _parts(file, span)
        for number, segment in enumerate(parts):
            descriptor = await self._open(segment.locator)
            # The next block is fetched while this one is sent.
            if number + 1 < len(parts):
                self._start(parts[number + 1].locator)
            at, end = segment.offset, segment.offset + segment.length
            while at < end:
                piece = await self._read(descriptor, min(self._piece, end - at), at)
                if not piece:
                    raise Corrupt(f"{segment.locator[:32]}: the file reaches beyond this block")
                yield piece
                at += len(piece)

    async def close(self) -> None:
        """Close the open block and cancel the fetch."""
        while self._opens:
            await _discard(self._opens.popitem()[1])

    async def _open(self, locator: str) -> int:
        task = self._start(locator)
        # Blocks before this one are not needed again: segments are read in order.
        while next(iter(self._opens)) != bare(locator):
            await _discard(self._opens.popitem(last=False)[1])
        # Shielded: the task is closed by `close`.
        return await asyncio.shield(task)

    def _start(self, locator: str) -> asyncio.Task[int]:
        name = bare(locator)
        if name not in self._opens:
            self._opens[name] = asyncio.create_task(self._files.open(locator), name=f"block {name}")
        return self._opens[name]

    async def _read(self, descriptor: int, size: int, at: int) -> bytes:
        if size <= self._small:
            return os.pread(descriptor, size, at)
        return await asyncio.to_thread(os.pread, descriptor, size, at)


async def _discard(task: asyncio.Task[int]) -> None:
    task.cancel()
    # A task that had a descriptor already gives it back here.
    with suppress(asyncio.CancelledError, LadingError, OSError):
        os.close(await task)


def _parts(file: File, span: Span) -> Sequence[Segment]:
    segments, at = [], 0
    for segment in file.segments:
        start, end = max(span.start, at), min(span.end, at + segment.length)
        # Files without data refer to the empty block.
        if start < end and not segment.locator.startswith(EMPTY_HASH):
            segments.append(Segment(segment.locator, segment.offset + start - at, end - start))
        at += segment.length
    return segments

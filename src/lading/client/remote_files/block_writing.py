"""A stream of bytes as blocks: one is filled while the one before is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

from lading.core.data.filetree import File, Segment
from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import LadingError

Put = Callable[[bytearray], Coroutine[Any, Any, str]]
"""Stores a block durably; returns its signed locator."""


class BlockWriter:
    """Stores written bytes by `put`, in blocks of `block` bytes; at most two blocks are in memory.
    Leaving `async with` cancels a transfer that goes on.
    """

    def __init__(self, put: Put, *, block: int = MAX_BLOCK) -> None:
        self._put, self._block = put, block
        self._buffer = bytearray()
        self._segments: list[Segment] = []
        self._flight: asyncio.Task[str] | None = None
        self._flying = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.abort()

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes. Raises the errors of storing a block before them."""
        view = memoryview(data).cast("B")
        while len(self._buffer) + len(view) >= self._block:
            taken = self._block - len(self._buffer)
            self._buffer += view[:taken]
            view = view[taken:]
            await self._launch()
        self._buffer += view

    async def finish(self) -> File:
        """Store the remaining bytes; return the file, whose blocks are durable. Raises the errors
        of `BlockClient.put`.
        """
        if self._buffer:
            await self._launch()
        await self._land()
        return File(tuple(self._segments))

    async def abort(self) -> None:
        """Drop the bytes; blocks that are stored are garbage."""
        self._buffer = bytearray()
        if self._flight is not None:
            self._flight.cancel()
            with suppress(asyncio.CancelledError, LadingError):
                await self._flight
            self._flight = None

    async def _launch(self) -> None:
        # The previous block first: at most one is sent while the next is filled.
        await self._land()
        self._flying = len(self._buffer)
        self._flight = asyncio.create_task(self._put(self._buffer), name="put block")
        self._buffer = bytearray()

    async def _land(self) -> None:
        if self._flight is not None:
            self._segments.append(Segment(await self._flight, 0, self._flying))
            self._flight = None

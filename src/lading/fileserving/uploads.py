"""Uploads of any size: one block is filled while the previous one is stored.

The number of large uploads at a time is limited to bound memory; others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import AsyncExitStack, suppress
from typing import Final
from weakref import WeakValueDictionary

from lading.client.blocks import BlockClient
from lading.core.data.filetree import File, Segment
from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import LadingError, Unavailable

# Bodies up to this size do not wait for a turn.
_NO_TURN: Final = 1 << 20
# Large uploads at a time; each holds two blocks of 64 MiB.
_AT_ONCE: Final = 4
# Most large uploads at a time with one token.
_OF_ONE: Final = 2
# Seconds of waiting for a turn.
_TURN: Final = 120.0


class BodyIntake:
    """Stores request bodies as blocks of `block` bytes.

    `at_once` large bodies are taken in at a time; a further one waits `turn` seconds for its turn.
    """

    def __init__(
        self, *, block: int = MAX_BLOCK, at_once: int = _AT_ONCE, turn: float = _TURN
    ) -> None:
        self._block, self._turn = block, turn
        self._turns = asyncio.Semaphore(at_once)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def store(
        self, blocks: BlockClient, body: AsyncIterable[bytes], *, length: int | None, holder: str
    ) -> File:
        """Store a body; return its file, whose blocks are durable.

        `length` is None if unknown; `holder` identifies the token.

        Raises Full, Unavailable, and the errors of an aborted body, whose blocks remain as garbage.
        """
        if length is not None and length <= _NO_TURN:
            return await _store(blocks, body, self._block)
        # The share first: uploads of one token must not wait in turns that others need.
        share = self._shares.setdefault(holder, asyncio.Semaphore(_OF_ONE))
        async with AsyncExitStack() as turns:
            try:
                async with asyncio.timeout(self._turn):
                    await turns.enter_async_context(share)
                    await turns.enter_async_context(self._turns)
            except TimeoutError as error:
                raise Unavailable("too many large files are coming in; try again later") from error
            return await _store(blocks, body, self._block)


async def _store(blocks: BlockClient, body: AsyncIterable[bytes], most: int) -> File:
    """The file of a body, in blocks of `most` bytes."""
    segments: list[Segment] = []
    flight: asyncio.Task[str] | None = None
    buffer = bytearray()
    sizes: list[int] = []

    async def launch() -> None:
        nonlocal flight, buffer
        # The previous block first: at most one is sent while the next is filled.
        await land()
        sizes.append(len(buffer))
        flight = asyncio.create_task(blocks.put(buffer), name="put block")
        buffer = bytearray()

    async def land() -> None:
        nonlocal flight
        if flight is not None:
            segments.append(Segment(await flight, 0, sizes[-1]))
            flight = None

    try:
        async for piece in body:
            view = memoryview(piece)
            while len(buffer) + len(view) >= most:
                taken = most - len(buffer)
                buffer += view[:taken]
                view = view[taken:]
                await launch()
            buffer += view
        if buffer:
            await launch()
        await land()
    finally:
        # Aborted: the blocks that are stored already are garbage.
        if flight is not None:
            flight.cancel()
            with suppress(asyncio.CancelledError, LadingError):
                await flight
    return File(tuple(segments))

"""A body of any size into blocks: one block is filled while the one before it is stored.

Few large bodies are taken in at once, so that memory stays bounded; others wait for their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import AsyncExitStack, suppress
from typing import Final
from weakref import WeakValueDictionary

from lading.client.blocks import BlockClient
from lading.core.errors import LadingError, Unavailable
from lading.core.filetree import File, Segment
from lading.core.locator import MAX_BLOCK

_LARGE: Final = 1 << 20
_AT_ONCE: Final = 4
_OF_ONE: Final = 2
"""Large bodies at once with one token: others have a turn as well."""
_TURN: Final = 120.0


class Intake:
    """Takes bodies in."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def store(self, blocks: BlockClient, body: AsyncIterable[bytes], *, length: int | None, holder: str) -> File:
        """The stored file, all of its blocks durable. `length` is None if it was not said; `holder` names the token.

        Raises Full, Unavailable; what the body raises when it breaks off. Nothing names the blocks of a body that did.
        """
        if length is not None and length <= _LARGE:
            return await _store(blocks, body)
        share = self._shares.setdefault(holder, asyncio.Semaphore(_OF_ONE))
        async with AsyncExitStack() as turns:
            try:
                async with asyncio.timeout(_TURN):
                    await turns.enter_async_context(share)
                    await turns.enter_async_context(self._turns)
            except TimeoutError as error:
                raise Unavailable("too many large files are coming in; try again later") from error
            return await _store(blocks, body)


async def _store(blocks: BlockClient, body: AsyncIterable[bytes]) -> File:
    segments: list[Segment] = []
    flight: asyncio.Task[str] | None = None
    buffer = bytearray()
    sizes: list[int] = []

    async def launch() -> None:
        nonlocal flight, buffer
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
            while len(buffer) + len(view) >= MAX_BLOCK:
                taken = MAX_BLOCK - len(buffer)
                buffer += view[:taken]
                view = view[taken:]
                await launch()
            buffer += view
        if buffer:
            await launch()
        await land()
    finally:
        if flight is not None:
            flight.cancel()
            with suppress(asyncio.CancelledError, LadingError):
                await flight
    return File(tuple(segments))

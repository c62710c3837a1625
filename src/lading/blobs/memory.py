"""Memory for blocks on their way: at most so many bytes at once, and whoever wants more waits for a turn.

Room for a large block is a mapping of its own, backed by huge pages where the kernel has them and kept some seconds for
the next ones: else every block would cost more for fresh pages than for being copied. What a connection still looks at
when the room is given back is not used again: a mapping refuses to be resized then, and is left to be collected.
"""

from __future__ import annotations

import asyncio
import mmap
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

from lading.core.errors import Unavailable
from lading.core.locator import MAX_BLOCK

_MAPPED = 1 << 20
_IDLE = 4
_REST = 10.0


class Room:
    """`view`: writable memory of the wanted size, until it is released or its `with` ends."""

    def __init__(self, memory: Memory, size: int) -> None:
        self._memory = memory
        self._size = size
        self._map = memory.mapping() if size > _MAPPED else None
        self.view = memoryview(self._map if self._map is not None else bytearray(size))[:size]

    def release(self) -> None:
        """Give it back; once is enough."""
        if self._size >= 0:
            size, self._size = self._size, -1
            self.view = memoryview(b"")
            self._memory.take_back(size, self._map)
            self._map = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Memory:
    """Gives out room, at most `limit` bytes at once; a wish waits at most `patience` seconds for its turn."""

    def __init__(self, limit: int, *, patience: float = 60.0) -> None:
        self._limit = max(limit, MAX_BLOCK)
        self._patience = patience
        self._resting: asyncio.TimerHandle | None = None
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._idle: list[mmap.mmap] = []

    @property
    def taken(self) -> int:
        """Bytes that are out."""
        return self._taken

    def close(self) -> None:
        """Keep no memory for the next user."""
        self._idle.clear()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    async def take(self, size: int, what: str) -> Room:
        """Room for `size` bytes of `what`. Raises Unavailable when no turn came."""
        if self._waiting or self._taken + size > self._limit:
            await self._wait(size, what)
        else:
            self._taken += size
        return Room(self, size)

    def mapping(self) -> mmap.mmap:
        """Memory for one block of the largest size, from the last user or fresh."""
        while self._idle:
            found = self._idle.pop()
            if _is_unused(found):
                return found
        made = mmap.mmap(-1, MAX_BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        made.madvise(mmap.MADV_HUGEPAGE)
        return made

    def take_back(self, size: int, mapping: mmap.mmap | None) -> None:
        """What `Room.release` does."""
        self._taken -= size
        if mapping is not None and len(self._idle) < _IDLE:
            self._idle.append(mapping)
            if self._resting is not None:
                self._resting.cancel()
            self._resting = asyncio.get_running_loop().call_later(_REST, self.close)
        self._admit()

    async def _wait(self, size: int, what: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._taken -= size
            with suppress(ValueError):
                self._waiting.remove((size, turn))
            self._admit()
            if isinstance(error, TimeoutError):
                raise Unavailable(f"{what}: the store is busy; try again") from error
            raise

    def _admit(self) -> None:
        while self._waiting and self._taken + self._waiting[0][0] <= self._limit:
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._taken += size
                turn.set_result(None)


def _is_unused(mapping: mmap.mmap) -> bool:
    try:
        mapping.resize(len(mapping))
    except BufferError:
        return False
    return True

"""Memory for blocks on their way: at most so many bytes at once, and whoever wants more waits for a turn.

A block that is read has all of its room at once. A block that comes has as much as has come, and a little more: who
announces a block and does not send it takes nothing from others. Requests with one token have a part of the memory at
most; of those that wait, the one whose token has least is next.

Room for a large block is a mapping of its own, backed by huge pages where the kernel has them and kept some seconds for
the next ones: else every block would cost more for fresh pages than for being copied. What a connection still looks at
when the room is given back is not used again: a mapping refuses to be resized then, and is left to be collected.
"""

from __future__ import annotations

import asyncio
import mmap
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from lading.core.errors import Unavailable
from lading.core.locator import MAX_BLOCK
from lading.core.pools import Claim, Pool

_MAPPED = 1 << 20
_FIRST = 2 << 20
"""Bytes that a large block has before it comes: a huge page is that large."""
_STEP = 4 << 20
_IDLE = 4
_REST = 10.0


class Room(Claim):
    """`view`: writable memory of the wanted size, until it is released or its `with` ends.

    The first `held` bytes of it may be used.
    """

    __slots__ = ("_is_open", "_map", "_memory", "holder", "view", "what")

    def __init__(self, memory: Memory, size: int, what: str, holder: str) -> None:
        super().__init__(size)
        self._memory = memory
        self._map: mmap.mmap | None = None
        self._is_open = False
        self.what = what
        self.holder = holder
        self.view = memoryview(b"")

    def open(self) -> Room:
        """Have the memory, once some of it was granted."""
        self._is_open = True
        self._map = self._memory.mapping() if self.size > _MAPPED else None
        self.view = memoryview(self._map if self._map is not None else bytearray(self.size))[: self.size]
        return self

    def extend(self, filled: int) -> int:
        """How far the view may be used now that so much is filled; `filled` itself when there is no more for now."""
        if self.held - filled < _MAPPED and self.missing:
            self._memory.try_add(self, min(self.missing, filled + _STEP - self.held))
        return self.held

    async def extended(self, filled: int) -> int:
        """As `extend`, after waiting for more. Raises Unavailable when none came."""
        if self.extend(filled) <= filled:
            await self._memory.add(self, min(self.missing, _STEP))
        return self.held

    def settle(self, filled: int) -> None:
        """No more is wanted than so much."""
        self._memory.settle(self, filled)

    def release(self) -> None:
        """Give it back; once is enough."""
        if self._is_open:
            self._is_open = False
            self.view = memoryview(b"")
            mapping, self._map = self._map, None
            self._memory.take_back(self, mapping)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@dataclass(slots=True, eq=False)
class _Waiter:
    room: Room
    amount: int
    turn: asyncio.Future[None]


class Memory:
    """Gives out room, at most `limit` bytes at once; a wish waits at most `patience` seconds for its turn.

    `share`: the part of it that one holder may have, at least one block.
    """

    def __init__(self, limit: int, *, share: float = 1.0, patience: float = 60.0) -> None:
        self._all = Pool(max(limit, MAX_BLOCK))
        self._share = max(int(self._all.limit * min(share, 1.0)), MAX_BLOCK)
        self._patience = patience
        self._resting: asyncio.TimerHandle | None = None
        self._shares: dict[str, Pool] = {}
        self._waiting: list[_Waiter] = []
        self._idle: list[mmap.mmap] = []

    @property
    def taken(self) -> int:
        """Bytes that are out."""
        return self._all.taken

    def close(self) -> None:
        """Keep no memory for the next user."""
        self._idle.clear()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    async def take(self, size: int, what: str, *, holder: str = "") -> Room:
        """Room for `size` bytes of `what`, all of which may be used. Raises Unavailable when no turn came.

        A `holder` of "" is one who is not limited to a share.
        """
        room = Room(self, size, what, holder)
        await self.add(room, size)
        return room.open()

    async def begin(self, size: int, what: str, *, holder: str = "") -> Room:
        """Room for at most `size` bytes that come by and by; see `Room.extend`. Raises as `take` does."""
        room = Room(self, size, what, holder)
        await self.add(room, size if size <= _MAPPED else min(size, _FIRST))
        return room.open()

    def try_add(self, room: Room, amount: int) -> bool:
        """Whether a room could have so many bytes more at once."""
        if not self._fits(room, amount):
            return False
        self._add(room, amount)
        return True

    async def add(self, room: Room, amount: int) -> None:
        """Let a room have so many bytes more. Raises Unavailable when no turn came."""
        is_next = bool(room.held) or not self._waiting
        if not (is_next and self.try_add(room, amount)):
            await self._wait(room, amount)

    def mapping(self) -> mmap.mmap:
        """Memory for one block of the largest size, from the last user or fresh."""
        while self._idle:
            found = self._idle.pop()
            if _is_unused(found):
                return found
        made = mmap.mmap(-1, MAX_BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        made.madvise(mmap.MADV_HUGEPAGE)
        return made

    def settle(self, room: Room, size: int) -> None:
        """What `Room.settle` does."""
        for pool in self._pools(room):
            pool.remove(room)
        room.size = room.held = size
        for pool in self._pools(room):
            pool.taken += size
        self._admit()

    def take_back(self, room: Room, mapping: mmap.mmap | None) -> None:
        """What `Room.release` does."""
        for pool in self._pools(room):
            pool.remove(room)
        self._forget_share(room)
        if mapping is not None and len(self._idle) < _IDLE:
            self._idle.append(mapping)
            if self._resting is not None:
                self._resting.cancel()
            self._resting = asyncio.get_running_loop().call_later(_REST, self.close)
        self._admit()

    def _pools(self, room: Room) -> tuple[Pool, ...]:
        if not room.holder:
            return (self._all,)
        return self._all, self._shares.setdefault(room.holder, Pool(self._share))

    def _forget_share(self, room: Room) -> None:
        if room.holder and not self._shares[room.holder].taken:
            del self._shares[room.holder]

    def _fits(self, room: Room, amount: int) -> bool:
        return all(pool.fits(room, amount) for pool in self._pools(room))

    def _add(self, room: Room, amount: int) -> None:
        for pool in self._pools(room):
            pool.add(room, amount)
        room.held += amount

    async def _wait(self, room: Room, amount: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(room, amount, turn)
        self._waiting.append(waiter)
        self._admit()
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and not room.view:
                # Nobody will open and release it.
                for pool in self._pools(room):
                    pool.remove(room)
                room.held = 0
            self._forget_share(room)
            with suppress(ValueError):
                self._waiting.remove(waiter)
            self._admit()
            if isinstance(error, TimeoutError):
                raise Unavailable(f"{room.what}: the store is busy; try again") from error
            raise

    def _admit(self) -> None:
        """Let those have their turn who can: who has begun first, then whose token has least."""
        is_full = False
        for waiter in sorted(self._waiting, key=self._rank) if len(self._waiting) > 1 else tuple(self._waiting):
            room = waiter.room
            if waiter.turn.done() or not self._pools(room)[-1].fits(room, waiter.amount):
                # Others need not wait for the share of one.
                continue
            if (is_full and not room.held) or not self._all.fits(room, waiter.amount):
                is_full = True
                continue
            self._add(room, waiter.amount)
            self._waiting.remove(waiter)
            waiter.turn.set_result(None)

    def _rank(self, waiter: _Waiter) -> tuple[bool, int]:
        room = waiter.room
        return not room.held, self._shares[room.holder].taken if room.holder in self._shares else 0


def _is_unused(mapping: mmap.mmap) -> bool:
    try:
        mapping.resize(len(mapping))
    except BufferError:
        return False
    return True

"""The memory for blocks on their way: shares of tokens, turns, and waits.

- `Memory` has a limit in bytes; requests beyond it wait. A block that is read gets all of its
  memory at once. A block that arrives gets memory for the received bytes and a little more, so a
  client that announces a block and does not send it takes nothing from others. Requests with one
  token get at most a share of the memory. Of the waiting requests, the one whose token has least is
  next.
- Memory for a large block is a mapping of its own, with huge pages where the kernel supports them,
  kept some seconds for reuse: otherwise fresh pages would cost more than the copy of the block. A
  mapping that a connection still uses when the room is released is not reused: it cannot be resized
  then, and is left to the garbage collector.
"""

from __future__ import annotations

import asyncio
import mmap
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from lading.core.bounded_memory import BytePool, PoolClaim
from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import Unavailable

# Bytes. Larger rooms get a mapping; also the distance to the limit at which more is requested.
_MAPPED = 1 << 20
# Bytes granted to a large block before its first byte: the size of a huge page.
_FIRST = 2 << 20
# Bytes by which a room grows.
_STEP = 4 << 20
# Mappings that are kept for reuse.
_IDLE = 4
# Seconds until unused mappings are freed.
_REST = 10.0


class MemoryRoom(PoolClaim):
    """`view`: writable memory of the requested size, until `release` or the end of `with`.

    The first `held` bytes may be used.
    """

    __slots__ = ("_is_open", "_map", "_memory", "holder", "subject", "view")

    def __init__(self, memory: Memory, size: int, subject: str, holder: str) -> None:
        super().__init__(size)
        self._memory = memory
        self._map: mmap.mmap | None = None
        self._is_open = False
        self.subject = subject
        self.holder = holder
        self.view = memoryview(b"")

    def open(self) -> MemoryRoom:
        """Allocate the memory after its first grant."""
        self._is_open = True
        self._map = self._memory.mapping() if self.size > _MAPPED else None
        self.view = memoryview(self._map if self._map is not None else bytearray(self.size))[
            : self.size
        ]
        return self

    def extend(self, filled: int) -> int:
        """The new limit of the view after `filled` bytes; `filled` itself when no memory is free
        now.
        """
        # Before the limit is reached, so that the body need not stop.
        if self.taken - filled < _MAPPED and self.missing:
            self._memory.try_add(self, min(self.missing, filled + _STEP - self.taken))
        return self.taken

    async def extended(self, filled: int) -> int:
        """Like `extend`, after a wait for memory. Raises Unavailable when none becomes free."""
        if self.extend(filled) <= filled:
            await self._memory.add(self, min(self.missing, _STEP))
        return self.taken

    def settle(self, filled: int) -> None:
        """Reduce the room to a size that is enough."""
        self._memory.settle(self, filled)

    def release(self) -> None:
        """Release the memory; further calls have no effect."""
        if self._is_open:
            self._is_open = False
            self.view = memoryview(b"")
            mapping, self._map = self._map, None
            self._memory.take_back(self, mapping)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(slots=True, eq=False)
class _Waiter:
    room: MemoryRoom
    amount: int
    turn: asyncio.Future[None]


class Memory:
    """Grants memory, at most `limit` bytes in total; a request waits at most `patience` seconds.
    Memory that is unused for `idle_time` seconds is returned to the system.

    `share`: the part of the memory that one holder may have, at least one block.
    """

    def __init__(
        self, limit: int, *, share: float = 1.0, patience: float = 60.0, idle_time: float = _REST
    ) -> None:
        self._idle_time = idle_time
        # At least one block, or no request could ever be granted.
        self._all = BytePool(max(limit, MAX_BLOCK))
        self._share = max(int(self._all.limit * min(share, 1.0)), MAX_BLOCK)
        self._patience = patience
        self._resting: asyncio.TimerHandle | None = None
        self._shares: dict[str, BytePool] = {}
        self._waiting: list[_Waiter] = []
        self._idle: list[mmap.mmap] = []

    @property
    def idle(self) -> int:
        """Blocks of memory that are kept for the next request."""
        return len(self._idle)

    @property
    def taken(self) -> int:
        """Granted bytes."""
        return self._all.taken

    def close(self) -> None:
        """Free the memory that is kept for reuse."""
        self._idle.clear()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    async def take(self, size: int, subject: str, *, holder: str = "") -> MemoryRoom:
        """Memory for `size` bytes of `subject`, usable at once. Raises Unavailable after the wait.

        A `holder` of "" is not limited to a share.
        """
        room = MemoryRoom(self, size, subject, holder)
        await self.add(room, size)
        return room.open()

    async def begin(self, size: int, subject: str, *, holder: str = "") -> MemoryRoom:
        """Memory for at most `size` bytes that arrive over time; see `MemoryRoom.extend`. Raises
        like `take`.
        """
        room = MemoryRoom(self, size, subject, holder)
        await self.add(room, size if size <= _MAPPED else min(size, _FIRST))
        return room.open()

    def try_add(self, room: MemoryRoom, amount: int) -> bool:
        """Grant a room further bytes if they are free; return whether they were."""
        if not self._fits(room, amount):
            return False
        self._add(room, amount)
        return True

    async def add(self, room: MemoryRoom, amount: int) -> None:
        """Grant a room further bytes after a wait. Raises Unavailable when none become free."""
        # A room that has memory already is first: it holds memory while it waits, and could block
        # all others for good.
        is_next = bool(room.taken) or not self._waiting
        if not (is_next and self.try_add(room, amount)):
            await self._wait(room, amount)

    def mapping(self) -> mmap.mmap:
        """Memory mapping for a block of the largest size, reused or new."""
        while self._idle:
            found = self._idle.pop()
            if _is_unused(found):
                return found
        made = mmap.mmap(-1, MAX_BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # Advice: without huge pages it is ignored.
        made.madvise(mmap.MADV_HUGEPAGE)
        return made

    def settle(self, room: MemoryRoom, size: int) -> None:
        """Implementation of `MemoryRoom.settle`."""
        # Removed, and counted again as complete: it will not request more.
        for pool in self._pools(room):
            pool.remove(room)
        room.size = room.taken = size
        for pool in self._pools(room):
            pool.taken += size
        self._admit()

    def take_back(self, room: MemoryRoom, mapping: mmap.mmap | None) -> None:
        """Implementation of `MemoryRoom.release`."""
        for pool in self._pools(room):
            pool.remove(room)
        self._forget_share(room)
        if mapping is not None and len(self._idle) < _IDLE:
            self._idle.append(mapping)
            # The timer starts again with each released mapping.
            if self._resting is not None:
                self._resting.cancel()
            self._resting = asyncio.get_running_loop().call_later(self._idle_time, self.close)
        self._admit()

    def _pools(self, room: MemoryRoom) -> tuple[BytePool, ...]:
        if not room.holder:
            return (self._all,)
        return self._all, self._shares.setdefault(room.holder, BytePool(self._share))

    def _forget_share(self, room: MemoryRoom) -> None:
        if room.holder and not self._shares[room.holder].taken:
            del self._shares[room.holder]

    def _fits(self, room: MemoryRoom, amount: int) -> bool:
        return all(pool.fits(room, amount) for pool in self._pools(room))

    def _add(self, room: MemoryRoom, amount: int) -> None:
        for pool in self._pools(room):
            pool.add(room, amount)
        room.taken += amount

    async def _wait(self, room: MemoryRoom, amount: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(room, amount, turn)
        self._waiting.append(waiter)
        self._admit()
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            # Granted in the same moment as the timeout or cancellation.
            if turn.done() and not turn.cancelled() and not room.view:
                # The caller will neither open nor release this room.
                for pool in self._pools(room):
                    pool.remove(room)
                room.taken = 0
            self._forget_share(room)
            # The request was admitted in the moment in which its time ran out.
            with suppress(ValueError):
                self._waiting.remove(waiter)
            self._admit()
            if isinstance(error, TimeoutError):
                raise Unavailable(f"{room.subject}: the store is busy; try again") from error
            raise

    def _admit(self) -> None:
        """Grant memory to waiting requests: started ones first, then those whose holder has
        least.
        """
        is_full = False
        for waiter in (
            sorted(self._waiting, key=self._rank)
            if len(self._waiting) > 1
            else tuple(self._waiting)
        ):
            room = waiter.room
            # The last pool is the share of the holder; without a holder it is the whole memory.
            if waiter.turn.done() or not self._pools(room)[-1].fits(room, waiter.amount):
                # Other holders do not wait for a holder that has used up its share.
                continue
            # A request that does not fit must not be overtaken by smaller ones for ever.
            if (is_full and not room.taken) or not self._all.fits(room, waiter.amount):
                is_full = True
                continue
            self._add(room, waiter.amount)
            self._waiting.remove(waiter)
            waiter.turn.set_result(None)

    def _rank(self, waiter: _Waiter) -> tuple[bool, int]:
        room = waiter.room
        return not room.taken, self._shares[room.holder].taken if room.holder in self._shares else 0


def _is_unused(mapping: mmap.mmap) -> bool:
    try:
        # resize() fails with BufferError while a view of the mapping exists.
        mapping.resize(len(mapping))
    except BufferError:
        return False
    return True

"""Blocks in transfer over HTTP: their memory, request bodies read into it, and responses.

- `Memory` has a limit in bytes; requests beyond it wait. A block that is read gets all of its
  memory at once. A block that arrives gets memory for the received bytes and a little more, so a
  client that announces a block and does not send it takes nothing from others. Requests with one
  token get at most a share of the memory. Of the waiting requests, the one whose token has least is
  next.
- Memory for a large block is a mapping of its own, with huge pages where the kernel supports them,
  kept some seconds for reuse: otherwise fresh pages would cost more than the copy of the block. A
  mapping that a connection still uses when the room is released is not reused: it cannot be resized
  then, and is left to the garbage collector.
- A server with the extension RECEIVE_INTO writes the body into the given memory; with other servers
  it is copied there. Followers (a digest, a file that is being written) process the body while it
  arrives: they are called with each piece, in order, one call at a time; a piece is at least a
  mebibyte, so that the switch to a thread is cheap in comparison.
- Responses are blocks, or errors as plain text.
"""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from lading.blobs.volume import Buffer
from lading.core.bounded_memory import BytePool, PoolClaim
from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import Full, LadingError, TooLarge, Unavailable
from lading.core.protocols.transfer_rates import MinimumRate
from lading.net.acceptor import end

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

    __slots__ = ("_is_open", "_map", "_memory", "holder", "view", "what")

    def __init__(self, memory: Memory, size: int, what: str, holder: str) -> None:
        super().__init__(size)
        self._memory = memory
        self._map: mmap.mmap | None = None
        self._is_open = False
        self.what = what
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
        if self.held - filled < _MAPPED and self.missing:
            self._memory.try_add(self, min(self.missing, filled + _STEP - self.held))
        return self.held

    async def extended(self, filled: int) -> int:
        """Like `extend`, after a wait for memory. Raises Unavailable when none becomes free."""
        if self.extend(filled) <= filled:
            await self._memory.add(self, min(self.missing, _STEP))
        return self.held

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
    Memory that is unused for `rest` seconds is returned to the system.

    `share`: the part of the memory that one holder may have, at least one block.
    """

    def __init__(
        self, limit: int, *, share: float = 1.0, patience: float = 60.0, rest: float = _REST
    ) -> None:
        self._rest = rest
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

    async def take(self, size: int, what: str, *, holder: str = "") -> MemoryRoom:
        """Memory for `size` bytes of `what`, usable at once. Raises Unavailable after the wait.

        A `holder` of "" is not limited to a share.
        """
        room = MemoryRoom(self, size, what, holder)
        await self.add(room, size)
        return room.open()

    async def begin(self, size: int, what: str, *, holder: str = "") -> MemoryRoom:
        """Memory for at most `size` bytes that arrive over time; see `MemoryRoom.extend`. Raises
        like `take`.
        """
        room = MemoryRoom(self, size, what, holder)
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
        is_next = bool(room.held) or not self._waiting
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
        room.size = room.held = size
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
            self._resting = asyncio.get_running_loop().call_later(self._rest, self.close)
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
        room.held += amount

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
                room.held = 0
            self._forget_share(room)
            # The request was admitted in the moment in which its time ran out.
            with suppress(ValueError):
                self._waiting.remove(waiter)
            self._admit()
            if isinstance(error, TimeoutError):
                raise Unavailable(f"{room.what}: the store is busy; try again") from error
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
        # resize() fails with BufferError while a view of the mapping exists.
        mapping.resize(len(mapping))
    except BufferError:
        return False
    return True


RECEIVE_INTO: Final = "lading.receive_into"
"""ASGI extension: `await scope["extensions"][RECEIVE_INTO](view, progress, extend)` fills `view`,
which is as long as the announced body, and returns the number of bytes received. It calls
`progress(filled)` from time to time, which returns
the limit up to which the view may be filled; at the limit it awaits `extend(filled)`."""
WINDOW: Final = 30.0
"""Seconds below the least rate after which a slow body, or a slow reader of a block, is cut off."""

Progress = Callable[[int], int]
Extend = Callable[[int], Awaitable[int]]
Follower = Callable[[memoryview], Awaitable[None]]
# Bytes: a follower is called for at least so much, except at the end of the body.
_PIECE: Final = 1 << 20


async def take_in(
    request: Request,
    room: MemoryRoom,
    *,
    length: int | None,
    followers: Sequence[Follower],
    rate: int = 0,
) -> int:
    """Read the body into a room; return its size after every follower has processed all of it.

    `length` is the announced length, `rate` the least bytes a second. Raises TooLarge for a body
    beyond the view, ClientDisconnect for a closed connection, Unavailable without memory or for a
    slow body, and errors of followers.
    """
    feed = _Feed(room, MinimumRate(rate, WINDOW))
    tasks = [asyncio.create_task(_follow(feed, follower)) for follower in followers]
    try:
        async with asyncio.timeout(feed.pace.left) as feed.timer:
            # Followers end with the bytes that arrived; the result is not used.
            await _fill(request, feed, length)
    except BaseException as error:
        feed.end(complete=False)
        # A thread may still use the memory: wait for it before the memory is reused.
        await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(error, TimeoutError) and feed.timer.expired():
            raise Unavailable(
                f"{room.what}: fewer than {rate} bytes a second came for {WINDOW:g} s"
            ) from error
        raise
    # The rest of the room is free for others while the followers finish.
    room.settle(feed.filled)
    feed.end(complete=True)
    await asyncio.gather(*tasks)
    return feed.filled


class _Feed:
    """The number of bytes received so far; wakes readers that wait for more, and ends a body that
    is slower than the least rate.
    """

    timer: asyncio.Timeout

    def __init__(self, room: MemoryRoom, pace: MinimumRate) -> None:
        self._room = room
        self.view = room.view
        self.pace = pace
        self.filled = 0
        self._loop = asyncio.get_running_loop()
        self._noted_at = self._loop.time()
        self._ended = False
        self._abandoned = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def advance(self, filled: int) -> int:
        """Note the number of received bytes; return the limit of the view."""
        now = self._loop.time()
        self.pace.note(filled - self.filled, now - self._noted_at)
        self.filled, self._noted_at = filled, now
        if self._waiters and any(filled >= wanted for wanted, _ in self._waiters):
            self._wake()
        left = self.pace.left
        # The pace is at its best: only then is the deadline later than before.
        if left == WINDOW:
            # Not for every call, as it has a cost.
            self.timer.reschedule(now + left)
        return self._room.extend(filled)

    async def extend(self, filled: int) -> int:
        """Wait for memory, without counting the time as slowness; return the new limit. Raises
        Unavailable.
        """
        # No deadline during the wait for memory, which is not the client's fault.
        self.timer.reschedule(None)
        allowed = await self._room.extended(filled)
        self._noted_at = self._loop.time()
        if (left := self.pace.left) is not None:
            self.timer.reschedule(self._noted_at + left)
        return allowed

    def end(self, *, complete: bool) -> None:
        """End the body; an incomplete one is useless."""
        self._ended, self._abandoned = True, not complete
        self._wake()

    async def beyond(self, done: int) -> int:
        """The end of the next whole pieces after `done` bytes; `done` itself at the end of the
        body.
        """
        while not self._ended and self.filled - done < _PIECE:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((done + _PIECE, turn))
            await turn
        if self._abandoned:
            return done
        return self.filled if self._ended else self.filled // _PIECE * _PIECE

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for _, turn in waiters:
            if not turn.done():
                turn.set_result(None)


async def _follow(feed: _Feed, follower: Follower) -> None:
    done = 0
    while (end := await feed.beyond(done)) > done:
        await follower(feed.view[done:end])
        done = end


async def _fill(request: Request, feed: _Feed, length: int | None) -> None:
    receive_into = request.scope.get("extensions", {}).get(RECEIVE_INTO)
    # Only if the announced length is the size of the view: the server writes without a copy.
    if receive_into is not None and length == len(feed.view):
        feed.filled = await receive_into(feed.view, feed.advance, feed.extend)
        # The client ended the connection early.
        if feed.filled < length:
            raise ClientDisconnect
        return
    allowed = feed.advance(0)
    async for chunk in request.stream():
        end = feed.filled + len(chunk)
        if end > len(feed.view):
            raise TooLarge(
                f"the body has more than the {len(feed.view)} bytes that a block may have"
            )
        while allowed < end:
            allowed = await feed.extend(allowed)
        feed.view[feed.filled : end] = chunk
        allowed = feed.advance(end)


ANY_ORIGIN: Final = {"Access-Control-Allow-Origin": "*"}
# Seconds, for Retry-After.
_AGAIN: Final = "2"
# Bytes sent at a time.
_CHUNK: Final = 1 << 20
# Bytes of the last piece, which is copied.
_LAST: Final = 1 << 17


def refusal(error: LadingError) -> Response:
    """An error as one line of text, with Retry-After if a retry may help."""
    headers = dict(ANY_ORIGIN)
    if isinstance(error, Unavailable) and not isinstance(error, Full):
        headers["Retry-After"] = _AGAIN
    if isinstance(error, TooLarge | Unavailable):
        # Unread parts of a body may still arrive: close the connection instead of reading them.
        headers["Connection"] = "close"
    return PlainTextResponse(f"{error.message}\n", status_code=error.status, headers=headers)


class BlockAnswer(Response):
    """A block, sent in pieces; its memory is released afterwards, also on failure."""

    def __init__(
        self,
        data: Buffer,
        size: int,
        headers: dict[str, str],
        *,
        room: MemoryRoom | None = None,
        rate: int = 0,
    ) -> None:
        """`rate`: least bytes a second that the reader must take; 0 disables the limit."""
        super().__init__(
            b"",
            headers={**headers, "Content-Length": str(size)},
            media_type="application/octet-stream",
        )
        self._data = memoryview(data)
        self._room = room
        self._pace = MinimumRate(rate, WINDOW)

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,  # noqa: ARG002 (ASGI)
        send: Send,
    ) -> None:
        """Send the response."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for piece in self._pieces():
                # A stalled reader must not hold memory that other requests wait for.
                async with asyncio.timeout(self._pace.left):
                    await self._send(piece, send)
            async with asyncio.timeout(self._pace.left):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            await end(scope)
        # The connection is closed: the announced length can no longer be sent.
        finally:
            self._data = memoryview(b"")
            if self._room is not None:
                self._room.release()

    async def _send(self, piece: Buffer, send: Send) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        self._pace.note(len(piece), now() - began)

    def _pieces(self) -> Iterator[Buffer]:
        size = len(self._data)
        # The server may hold the last piece for long: it must be a copy, not a view of the shared
        # memory.
        last = max(0, size - _LAST) if size > _CHUNK else size
        for start in range(0, last, _CHUNK):
            yield self._data[start : min(start + _CHUNK, last)]
        if last < size:
            yield bytes(self._data[last:])

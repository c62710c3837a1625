"""Blocks in transfer over HTTP: request bodies read into memory, and responses.

- A server with the extension RECEIVE_INTO writes the body into the given memory; with other servers
  it is copied there. Followers (a digest, a file that is being written) process the body while it
  arrives: they are called with each piece, in order, one call at a time; a piece is at least a
  mebibyte, so that the switch to a thread is cheap in comparison.
- Responses are blocks, or errors as plain text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from lading.blobs.transfer_memory import MemoryRoom
from lading.blobs.volume import Buffer
from lading.core.errors import Full, LadingError, TooLarge, Unavailable
from lading.core.protocols.transfer_rates import MinimumRate
from lading.net.acceptor import end

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
                f"{room.subject}: fewer than {rate} bytes a second came for {WINDOW:g} s"
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
        if self._waiters and any(filled >= awaited for awaited, _ in self._waiters):
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

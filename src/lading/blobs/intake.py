"""A body on its way into memory, and those who work on it while it comes.

A server that offers the extension RECEIVE_INTO writes the body where it is wanted; from any other it is copied there.
Followers (a digest, a file that is being written) are called with each piece, in order, one call at a time; a piece is
at least a mebibyte, so that a hop to a thread costs nothing beside the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.requests import ClientDisconnect, Request

from lading.core.errors import TooLarge

RECEIVE_INTO: Final = "lading.receive_into"
"""ASGI extension: `await scope["extensions"][RECEIVE_INTO](view, progress)` fills `view`, which is as long as the body
was announced to be, calls `progress(filled)` now and then, and returns how much came before the connection ended."""

Follower = Callable[[memoryview], Awaitable[None]]
_PIECE: Final = 1 << 20


async def take_in(request: Request, view: memoryview, *, length: int | None, followers: Sequence[Follower]) -> int:
    """Read the body into `view`; its size in bytes, once every follower has seen all of it.

    `length` is what was announced. Raises TooLarge when more comes than fits, ClientDisconnect when the other side
    leaves, and what a follower raises.
    """
    feed = _Feed(view)
    tasks = [asyncio.create_task(_follow(feed, follower)) for follower in followers]
    try:
        await _fill(request, feed, length)
    except BaseException:
        feed.end(complete=False)
        # A thread may be at work on the memory: it must be done before that is used for something else.
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    feed.end(complete=True)
    await asyncio.gather(*tasks)
    return feed.filled


class _Feed:
    """How far the body has come; wakes those who follow it."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.filled = 0
        self._ended = False
        self._abandoned = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def advance(self, filled: int) -> None:
        """So many bytes are there by now."""
        self.filled = filled
        if self._waiters and any(filled >= wanted for wanted, _ in self._waiters):
            self._wake()

    def end(self, *, complete: bool) -> None:
        """No more will come; what is there is worth nothing unless it is complete."""
        self._ended, self._abandoned = True, not complete
        self._wake()

    async def beyond(self, done: int) -> int:
        """How far one can work on after `done` bytes, in whole pieces; `done` itself at the end."""
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
    if receive_into is not None and length == len(feed.view):
        feed.advance(await receive_into(feed.view, feed.advance))
        if feed.filled < length:
            raise ClientDisconnect
        return
    async for chunk in request.stream():
        end = feed.filled + len(chunk)
        if end > len(feed.view):
            raise TooLarge(f"the body has more than the {len(feed.view)} bytes that a block may have")
        feed.view[feed.filled : end] = chunk
        feed.advance(end)

"""Bytes of files, from open blocks, with read-ahead.

`OpenBlocks` keeps descriptors of the blocks that were read last. A reader holds a block while it
copies from it, so that its descriptor is never closed, and its number never used for something
else, under a reader. What is not open is asked for in the event loop, once for any number of
readers, while they wait in their threads.

Read-ahead: who reads a file from where he stopped gets the next blocks fetched while he reads this
one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, TypeVar

from lading.client.block_cache import BlockFiles
from lading.client.mount.places import Renew
from lading.core.data.filetree import File
from lading.core.errors import Corrupt, Forbidden, Malformed, Unauthenticated, Unavailable

_KEPT_OPEN = 32
_AHEAD = 2
_FARTHEST = 256
_NEAR = 1 << 20
_SEQUENTIAL = 1 << 17
_REFUSED = (Malformed, Unauthenticated, Forbidden)
_logger = logging.getLogger("lading.mount")
_Answer = TypeVar("_Answer")


class Bridge:
    """The way from a thread into the event loop, with a time limit in seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        self._loop = loop
        self._timeout = timeout

    def call(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """What `work` answers, done in the loop. Raises Unavailable after the time limit, and what
        it raises.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:
            work.close()
            raise Unavailable("the mount is ending") from error
        try:
            return future.result(self._timeout)
        except TimeoutError as error:
            future.cancel()
            raise Unavailable(f"no answer within {self._timeout:g} s") from error

    def send(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the loop do it some time."""
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()


@dataclass(slots=True)
class _Open:
    descriptor: int
    users: int = 0
    is_forgotten: bool = False


class OpenBlocks:
    """Open blocks by hash. `use` is for threads, everything else happens in the loop."""

    def __init__(self, files: BlockFiles, bridge: Bridge, *, keep: int = _KEPT_OPEN) -> None:
        self._files = files
        self._bridge = bridge
        self._keep = keep
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._turn = threading.Lock()
        self._loads: dict[str, asyncio.Task[None]] = {}

    def read(self, locator: str, renew: Renew | None, target: memoryview, offset: int) -> int:
        """Fill `target` from the block at `offset`; the bytes that were there. Raises LadingError,
        OSError.
        """
        digest = locator[:32]
        while True:
            with self._use(locator, renew) as found:
                try:
                    done = os.preadv(found.descriptor, [target], offset)
                except OSError as error:
                    raise Unavailable(
                        f"{digest}: its file cannot be read: {error.strerror}"
                    ) from error
                if self._files.is_sound(found.descriptor):
                    return done
            self._forget(digest, found)

    @contextmanager
    def _use(self, locator: str, renew: Renew | None) -> Iterator[_Open]:
        """The block, open until the context is left. Raises LadingError, OSError."""
        digest = locator[:32]
        while (found := self._hold(digest)) is None:
            self._bridge.call(self.load(locator, renew))
        try:
            yield found
        finally:
            with self._turn:
                found.users -= 1
                if found.is_forgotten and not found.users:
                    os.close(found.descriptor)

    def _forget(self, digest: str, one: _Open) -> None:
        """Have a block opened anew; those who read from it now may end, and find the same."""
        with self._turn:
            if self._open.get(digest) is one:
                del self._open[digest]
                one.is_forgotten = True
                if not one.users:
                    os.close(one.descriptor)

    def expect(self, locators: Sequence[str], renew: Renew | None) -> None:
        """Have these blocks fetched, from a thread that does not wait; what fails is tried again
        when it is read.
        """
        wanted = [
            one for one in locators if one[:32] not in self._open and one[:32] not in self._loads
        ]
        if wanted:
            self._bridge.send(self._expect(wanted, renew))

    async def load(self, locator: str, renew: Renew | None) -> None:
        """Open the block, fetched if need be. Raises LadingError, OSError."""
        digest = locator[:32]
        if digest in self._open:
            return
        task = self._loads.get(digest)
        if task is None:
            task = self._loads[digest] = asyncio.create_task(
                self._load(locator, renew), name=f"block {digest}"
            )
            task.add_done_callback(lambda done: self._done(digest, done))
        await asyncio.shield(task)

    async def close(self) -> None:
        """Give up what is on its way and close everything that nobody reads from."""
        loads = list(self._loads.values())
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        with self._turn:
            for digest, one in list(self._open.items()):
                if not one.users:
                    os.close(self._open.pop(digest).descriptor)

    def _hold(self, digest: str) -> _Open | None:
        with self._turn:
            found = self._open.get(digest)
            if found is not None:
                found.users += 1
                self._open.move_to_end(digest)
            return found

    async def _expect(self, locators: Sequence[str], renew: Renew | None) -> None:
        results = await asyncio.gather(
            *(self.load(one, renew) for one in locators), return_exceptions=True
        )
        for locator, result in zip(locators, results, strict=True):
            if isinstance(result, BaseException):
                _logger.info("block=%s not read ahead: %s", locator[:32], result)

    async def _load(self, locator: str, renew: Renew | None) -> None:
        try:
            descriptor = await self._files.open(locator)
        except _REFUSED:
            if renew is None:
                raise
            descriptor = await self._files.open(await renew(locator))
        with self._turn:
            self._open[locator[:32]] = _Open(descriptor)
            idle = [
                digest
                for digest, one in self._open.items()
                if not one.users and digest != locator[:32]
            ]
            for digest in idle[: max(len(self._open) - self._keep, 0)]:
                os.close(self._open.pop(digest).descriptor)

    def _done(self, digest: str, task: asyncio.Task[None]) -> None:
        self._loads.pop(digest, None)
        if not task.cancelled():
            # Whoever waited has it too; a failed read-ahead is nobody's.
            task.exception()


@dataclass(slots=True)
class Reader:
    """One open file: where its segments begin, and where the last read ended."""

    file: File
    renew: Renew | None = None
    size: int = 0
    _starts: list[int] = field(default_factory=list)
    _next: int = 0
    _run: int = 0
    _ahead: int = -1

    def __post_init__(self) -> None:
        """Add up the segments."""
        self._starts = list(
            accumulate((segment.length for segment in self.file.segments), initial=0)
        )
        self.size = self._starts[-1]

    def read_into(self, target: memoryview, offset: int, blocks: OpenBlocks) -> int:
        """Fill `target` from the file at `offset`; the bytes that were there. Raises LadingError,
        OSError.
        """
        end = min(offset + len(target), self.size)
        if offset >= end:
            return 0
        self._look_ahead(offset, end, blocks)
        at, number = offset, bisect_right(self._starts, offset) - 1
        while at < end:
            segment = self.file.segments[number]
            inside = at - self._starts[number]
            length = min(segment.length - inside, end - at)
            place = target[at - offset : at - offset + length]
            if blocks.read(segment.locator, self.renew, place, segment.offset + inside) != length:
                raise Corrupt(f"{segment.locator[:32]}: the file reaches beyond this block")
            at, number = at + length, number + 1
        return end - offset

    def _look_ahead(self, offset: int, end: int, blocks: OpenBlocks) -> None:
        # Reads of one reader arrive in any order, a little apart.
        is_near = self._next - _NEAR <= offset <= self._next + _NEAR
        self._run = self._run + end - offset if is_near else 0
        self._next = max(self._next, end) if is_near else end
        if self._run < _SEQUENTIAL:
            return
        number = bisect_right(self._starts, self._next - 1) - 1
        if number == self._ahead:
            return
        self._ahead = number
        wanted: dict[str, str] = {}
        here = self.file.segments[number].locator[:32]
        for segment in islice(self.file.segments, number + 1, number + 1 + _FARTHEST):
            digest = segment.locator[:32]
            if digest != here:
                wanted.setdefault(digest, segment.locator)
            if len(wanted) >= _AHEAD:
                break
        blocks.expect(list(wanted.values()), self.renew)

"""Open blocks of a mount: read ahead of a file's reader, and kept while they may be read again.

`OpenBlocks` keeps descriptors of the blocks read last. A reader holds a block while it copies from
it, so that its descriptor is not closed, and its number not reused, during the read. A block that
is not open is loaded in the event loop, once for any number of readers, while they wait in their
threads. Sequential reading of a file fetches the next blocks while the current one is read.
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

from lading.client.caches.content_caches import BlockFiles
from lading.client.mount.nodes import Renew
from lading.core.data.filetree import File
from lading.core.errors import (
    Corrupt,
    Forbidden,
    Malformed,
    Unauthenticated,
    Unavailable,
)

_logger = logging.getLogger("lading.mount")
# Number of open blocks, without the blocks being read.
_KEPT_OPEN = 32
# Blocks that are fetched ahead.
_AHEAD = 2
# Segments in which the next blocks are searched: many small segments may be in one block.
_FARTHEST = 256
# Bytes between two reads of a sequential reader: the kernel sends reads in parallel, in any order.
_NEAR = 1 << 20
# Bytes that were read sequentially before the read-ahead begins.
_SEQUENTIAL = 1 << 17
_REFUSED = (Malformed, Unauthenticated, Forbidden)
_Answer = TypeVar("_Answer")


class LoopBridge:
    """Calls from a thread into the event loop, with a time limit in seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        self._loop = loop
        self._timeout = timeout

    def call(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run `work` in the loop and return its result. Raises Unavailable after the time limit,
        and the errors of `work`.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        # The loop is closed.
        except RuntimeError as error:
            work.close()
            raise Unavailable("the mount is ending") from error
        try:
            return future.result(self._timeout)
        except TimeoutError as error:
            future.cancel()
            raise Unavailable(f"no answer within {self._timeout:g} s") from error

    def send(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the loop later, without waiting."""
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
    """Open blocks by hash. `read`, `use`, `forget` and `expect` are for threads; `use` of a block
    that is open, and `forget`, may run in the loop as well, like all other methods.
    """

    def __init__(self, files: BlockFiles, bridge: LoopBridge, *, keep: int = _KEPT_OPEN) -> None:
        self._files = files
        self._bridge = bridge
        self._keep = keep
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._turn = threading.Lock()
        self._loads: dict[str, asyncio.Task[None]] = {}

    def read(self, locator: str, renew: Renew | None, target: memoryview, offset: int) -> int:
        """Fill `target` from the block at `offset`; return the number of bytes read. Raises
        LadingError, OSError.
        """
        digest = locator[:32]
        while True:
            with self.use(locator, renew) as block:
                try:
                    done = os.preadv(block.descriptor, [target], offset)
                except OSError as error:
                    raise Unavailable(
                        f"{digest}: its file cannot be read: {error.strerror}"
                    ) from error
                # A lent file may have changed during the read: then it is opened, and verified,
                # again.
                if self._files.is_sound(block.descriptor):
                    return done
            self.forget(digest, block)

    @contextmanager
    def use(self, locator: str, renew: Renew | None) -> Iterator[_Open]:
        """The block, open until the context is left. Raises LadingError, OSError."""
        digest = locator[:32]
        while (block := self._hold(digest)) is None:
            self._bridge.call(self.load(locator, renew))
        try:
            yield block
        finally:
            with self._turn:
                block.users -= 1
                if block.is_forgotten and not block.users:
                    os.close(block.descriptor)

    def forget(self, digest: str, block: _Open) -> None:
        """Have a block opened again; current readers keep the old descriptor until they end."""
        with self._turn:
            if self._open.get(digest) is block:
                del self._open[digest]
                block.is_forgotten = True
                if not block.users:
                    os.close(block.descriptor)

    def expect(self, locators: Sequence[str], renew: Renew | None) -> None:
        """Fetch these blocks without waiting for them; failures are repeated when a block is
        read.
        """
        # Without the lock: the worst result is a load that finds the block open.
        absent = [
            block_locator
            for block_locator in locators
            if block_locator[:32] not in self._open and block_locator[:32] not in self._loads
        ]
        if absent:
            self._bridge.send(self._expect(absent, renew))

    async def load(self, locator: str, renew: Renew | None) -> None:
        """Open the block, fetched if needed. Raises LadingError, OSError."""
        digest = locator[:32]
        if digest in self._open:
            return
        task = self._loads.get(digest)
        if task is None:
            task = self._loads[digest] = asyncio.create_task(
                self._load(locator, renew), name=f"block {digest}"
            )
            task.add_done_callback(lambda done: self._done(digest, done))
        # Shielded: a reader that is cancelled must not cancel the load of the others.
        await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait until all loads have ended; the readers of the blocks get the failures."""
        await asyncio.gather(*self._loads.values(), return_exceptions=True)

    async def close(self) -> None:
        """Cancel all loads and close the blocks that are not being read."""
        for load in self._loads.values():
            load.cancel()
        await self.settle()
        with self._turn:
            for digest, block in list(self._open.items()):
                if not block.users:
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
            *(self.load(block_locator, renew) for block_locator in locators), return_exceptions=True
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
        # Blocks in use are not closed, so that more than `_keep` may be open for a moment.
        with self._turn:
            self._open[locator[:32]] = _Open(descriptor)
            idle = [
                digest
                for digest, block in self._open.items()
                if not block.users and digest != locator[:32]
            ]
            for digest in idle[: max(len(self._open) - self._keep, 0)]:
                os.close(self._open.pop(digest).descriptor)

    def _done(self, digest: str, task: asyncio.Task[None]) -> None:
        self._loads.pop(digest, None)
        if not task.cancelled():
            # Waiting readers got the exception too; retrieving it avoids a warning for failed
            # read-aheads.
            task.exception()


@dataclass(slots=True)
class OpenFileReader:
    """State of one file that is read: the offsets of its segments, and the end of the last read."""

    file: File
    renew: Renew | None = None
    size: int = 0
    _starts: list[int] = field(default_factory=list)
    _next: int = 0
    _run: int = 0
    _ahead: int = -1

    def __post_init__(self) -> None:
        """Compute the offsets of the segments."""
        self._starts = list(
            accumulate((segment.length for segment in self.file.segments), initial=0)
        )
        self.size = self._starts[-1]

    def read_into(self, target: memoryview, offset: int, blocks: OpenBlocks) -> int:
        """Fill `target` from the file at `offset`; return the number of bytes read. Raises
        LadingError, OSError.
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
        # Parallel reads of one reader arrive in any order, a little apart.
        is_near = self._next - _NEAR <= offset <= self._next + _NEAR
        self._run = self._run + end - offset if is_near else 0
        self._next = max(self._next, end) if is_near else end
        if self._run < _SEQUENTIAL:
            return
        number = bisect_right(self._starts, self._next - 1) - 1
        # Once for each segment.
        if number == self._ahead:
            return
        self._ahead = number
        needed: dict[str, str] = {}
        current = self.file.segments[number].locator[:32]
        for segment in islice(self.file.segments, number + 1, number + 1 + _FARTHEST):
            digest = segment.locator[:32]
            if digest != current:
                needed.setdefault(digest, segment.locator)
            if len(needed) >= _AHEAD:
                break
        blocks.expect(list(needed.values()), self.renew)

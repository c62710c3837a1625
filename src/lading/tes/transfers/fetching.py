"""Receives objects into blocks: in parts where they break off, paced, their checksums compared.

At most one block of 64 MiB is held in memory for each object. An attempt that brings less than a
MiB counts as failed; after some failures in a row the object is given up. A server that sends more
slowly than the least rate is treated like one whose connection broke.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from lading.client.files.collections import BlockSink
from lading.core.data.filetree import File, Segment
from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import Corrupt, LadingError, TooLarge, Unavailable
from lading.core.tes.transfers import MOST_FAILURES, ObjectFacts, pause
from lading.tes.transfers.endpoints import ObjectSource, OpenObject
from lading.tes.transfers.outside_http import PassingFault

_Answer = TypeVar("_Answer")
# Bytes that make an attempt a success.
_PROGRESS: Final = 1 << 20
# Attempts of one object in all.
_MOST_ATTEMPTS: Final = 200
# Objects up to this size are packed into shared blocks by the caller.
SMALL: Final = 1 << 20
"""Bytes of an object that is kept in memory for its caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRules:
    """Limits of transfers, and their clock. `min_rate`: bytes a second, measured over `window`
    seconds; `most`: bytes of one object.
    """

    min_rate: float = 16 << 10
    window: float = 60.0
    most: int = 1 << 40
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def wait(self, failures: int, fault: LadingError) -> None:
        """Wait before the next attempt after so many failures in a row."""
        asked = fault.asked if isinstance(fault, PassingFault) else 0.0
        await self.sleep(pause(failures, asked, self.chance()))

    async def repeat(self, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """The first success of a call that may meet passing faults. Raises its last error."""
        failures = 0
        while True:
            try:
                return await call()
            except (Unavailable, Corrupt) as error:
                failures += 1
                if failures >= MOST_FAILURES:
                    raise
                fault = error
            await self.wait(failures, fault)

    async def paced(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces. Raises PassingFault when they come too slowly."""
        since, count = self.clock(), 0
        async for piece in pieces:
            count += len(piece)
            yield piece
            passed = self.clock() - since
            if passed >= self.window:
                if count < self.min_rate * passed:
                    rate = count / passed
                    raise PassingFault(f"only {rate:.0f} bytes a second came")
                since, count = self.clock(), 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedObject:
    """A received object: its `content` if it is small, else the `file` of its blocks. `sha256` is
    computed for objects without a validator.
    """

    facts: ObjectFacts
    size: int
    content: bytes = b""
    file: File | None = None
    sha256: str = ""


@dataclass(slots=True)
class _Received:
    """The part of an object that was received."""

    facts: ObjectFacts
    size: int = 0
    segments: list[Segment] = field(default_factory=list)
    buffer: bytearray = field(default_factory=bytearray)
    hashes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {name for name, _ in self.facts.checksums}
        names |= set() if self.facts.validator else {"sha256"}
        self.hashes = {name: hashlib.new(name, usedforsecurity=False) for name in names}


class ObjectFetch:
    """Receives one object. `note` is called with the bytes received so far."""

    def __init__(
        self,
        source: ObjectSource,
        blocks: BlockSink,
        rules: TransferRules,
        *,
        note: Callable[[int, int | None], None] | None = None,
    ) -> None:
        self._source = source
        self._blocks = blocks
        self._rules = rules
        self._note = note
        self._received: _Received | None = None

    async def run(self) -> FetchedObject:
        """The object. Raises Unavailable when it was tried often enough, TooLarge, and the errors
        of the source.
        """

        async def never(facts: ObjectFacts) -> bool:
            del facts
            return False

        found = await self.run_unless(never)
        assert found is not None
        return found

    async def run_unless(
        self, is_known: Callable[[ObjectFacts], Awaitable[bool]]
    ) -> FetchedObject | None:
        """As `run`; None if `is_known` says of the first answer that the object is stored already,
        in which case the rest is not received.
        """
        failures = best = 0
        for _ in range(_MOST_ATTEMPTS):
            try:
                return await self._attempt(is_known)
            except (Unavailable, Corrupt) as error:
                size = self._received.size if self._received else 0
                failures = 1 if size - best >= _PROGRESS else failures + 1
                best, fault = max(best, size), error
            if failures >= MOST_FAILURES:
                break
            await self._rules.wait(failures, fault)
        raise Unavailable(f"{self._source.name}: given up after {failures} attempts: {fault}")

    async def _attempt(
        self, is_known: Callable[[ObjectFacts], Awaitable[bool]]
    ) -> FetchedObject | None:
        had = self._received
        at = had.size if had else 0
        async with self._source.open(at, had.facts if had else None) as opened:
            if had is None and await is_known(opened.facts):
                return None
            received = self._continued(opened)
            async for piece in self._rules.paced(opened.pieces):
                await self._take(received, piece)
        return await self._finish(received)

    def _continued(self, opened: OpenObject) -> _Received:
        """Bytes received before the answer, if the answer continues them."""
        had = self._received
        if had is None or opened.start != had.size or opened.facts.etag != had.facts.etag:
            if opened.start:
                self._received = None
                raise PassingFault("the object was changed meanwhile")
            had = self._received = _Received(opened.facts)
        return had

    async def _take(self, received: _Received, piece: bytes) -> None:
        received.size += len(piece)
        if received.size > self._rules.most:
            raise TooLarge(
                f"{self._source.name}: has more than {self._rules.most} bytes, which is the most "
                "that TES.MaxObjectSize allows"
            )
        for hash in received.hashes.values():
            hash.update(piece)
        view = memoryview(piece)
        while len(received.buffer) + len(view) >= MAX_BLOCK:
            room = MAX_BLOCK - len(received.buffer)
            received.buffer += view[:room]
            view = view[room:]
            await self._store(received)
        received.buffer += view
        if self._note is not None:
            self._note(received.size, received.facts.size)

    async def _store(self, received: _Received) -> None:
        data, received.buffer = received.buffer, bytearray()
        try:
            locator = await self._blocks.put(data)
        except LadingError:
            # These bytes are gone: the object is received anew.
            self._received = None
            raise
        received.segments.append(Segment(locator, 0, len(data)))

    async def _finish(self, received: _Received) -> FetchedObject:
        size = received.facts.size
        if size is not None and received.size != size:
            if received.size > size:
                self._received = None
            raise PassingFault(f"{received.size} of {size} bytes came")
        for name, announced in received.facts.checksums:
            found = received.hashes[name].hexdigest()
            if found != announced:
                # Nobody knows which part is wrong.
                self._received = None
                raise PassingFault(f"the {name} checksum is {found}, not {announced} as announced")
        content, file = b"", None
        if not received.segments and received.size <= SMALL:
            content = bytes(received.buffer)
        else:
            if received.buffer:
                await self._store(received)
            file = File(tuple(received.segments))
        digest = received.hashes["sha256"].hexdigest() if "sha256" in received.hashes else ""
        return FetchedObject(
            facts=received.facts, size=received.size, content=content, file=file, sha256=digest
        )

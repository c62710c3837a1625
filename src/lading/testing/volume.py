"""A volume in memory that fills up, fails and rots on demand."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from lading.blobs.volume import Buffer, Discarded, Space, Stored
from lading.core.errors import Conflict, Corrupt, Full, NotFound, Unavailable


@dataclass(frozen=True, slots=True)
class _Block:
    data: bytes
    at: int


class MemoryVolume:
    """Implements lading.blobs.volume.Volume.

    `capacity` is in bytes, `failures` the share of calls that fail, `now_ns` the time that puts are
    given; it moves on by a nanosecond with each.
    """

    def __init__(self, *, capacity: int = 1 << 30, failures: float = 0.0, seed: int = 0) -> None:
        self.now_ns = 0
        self.failures = failures
        self.quarantined: dict[str, bytes] = {}
        self._blocks: dict[str, _Block] = {}
        self._bin: dict[tuple[str, int], _Block] = {}
        self.capacity = capacity
        self._random = random.Random(seed)

    @property
    def device(self) -> str:
        """This object."""
        return f"memory {id(self)}"

    async def put(self, hash: str, data: Buffer) -> None:
        """Keep a block."""
        self._fail()
        if hash not in self._blocks and self._free() < len(data):
            raise Full(f"{hash}: no room")
        self._blocks[hash] = _Block(bytes(data), self._tick())

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The block, verified."""
        self._fail()
        data = self._find(hash).data
        if into is not None and len(data) > len(into):
            raise NotFound(f"{hash}: is larger")
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != hash:
            raise Corrupt(f"{hash}: rotten")
        if into is None:
            return data
        into[: len(data)] = data
        return into[: len(data)]

    async def head(self, hash: str) -> Stored:
        """What is known of a block."""
        self._fail()
        found = self._find(hash)
        return Stored(hash, len(found.data), found.at)

    async def index(self, prefix: str = "") -> AsyncGenerator[Stored]:
        """Blocks by prefix."""
        self._fail()
        for hash in sorted(self._blocks):
            if hash.startswith(prefix):
                found = self._blocks[hash]
                yield Stored(hash, len(found.data), found.at)

    async def space(self) -> Space:
        """What there is and what is left."""
        self._fail()
        return Space(self.capacity, self._free())

    async def close(self) -> None:
        """Nothing is held."""

    async def touch(self, hash: str) -> None:
        """Have a block count as put now."""
        self._fail()
        self._blocks[hash] = replace(self._find(hash), at=self._tick())

    async def discard(self, hash: str, mtime_ns: int) -> None:
        """Move a block into the bin."""
        self._bin[hash, self._tick()] = self._take(hash, mtime_ns)

    async def restore(self, hash: str) -> None:
        """Bring a block back."""
        self._fail()
        for key in sorted(self._bin):
            if key[0] == hash:
                self._blocks[hash] = replace(self._bin.pop(key), at=self._tick())
                return
        raise NotFound(f"{hash}: not in the bin")

    async def discarded(self) -> AsyncGenerator[Discarded]:
        """Everything in the bin."""
        self._fail()
        for (hash, at), block in sorted(self._bin.items()):
            yield Discarded(hash, len(block.data), at)

    async def delete(self, hash: str, discarded_ns: int) -> None:
        """Remove a block for good."""
        self._fail()
        if self._bin.pop((hash, discarded_ns), None) is None:
            raise NotFound(f"{hash}: not in the bin")

    async def quarantine(self, hash: str, mtime_ns: int) -> None:
        """Take a damaged block out of use."""
        self.quarantined[hash] = self._take(hash, mtime_ns).data

    def rot(self, hash: str) -> None:
        """Change one bit of a block behind everyone's back."""
        found = self._find(hash)
        self._blocks[hash] = replace(found, data=bytes([found.data[0] ^ 1]) + found.data[1:])

    def _take(self, hash: str, mtime_ns: int) -> _Block:
        self._fail()
        if self._find(hash).at != mtime_ns:
            raise Conflict(f"{hash}: was put again")
        return self._blocks.pop(hash)

    def _find(self, hash: str) -> _Block:
        try:
            return self._blocks[hash]
        except KeyError:
            fault = Corrupt if hash in self.quarantined else NotFound
            raise fault(f"{hash}: no such block") from None

    def _free(self) -> int:
        return max(0, self.capacity - sum(len(block.data) for block in self._blocks.values()))

    def _tick(self) -> int:
        self.now_ns += 1
        return self.now_ns

    def _fail(self) -> None:
        if self._random.random() < self.failures:
            raise Unavailable("the volume failed")

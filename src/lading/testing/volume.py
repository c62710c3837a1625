"""A volume in memory that fills up, fails and rots on demand."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncGenerator

from lading.blobs.volume import Stored
from lading.core.errors import Corrupt, Full, NotFound, Unavailable


class MemoryVolume:
    """Implements lading.blobs.volume.Volume; `capacity` is in bytes, `failures` the share of calls that fail."""

    def __init__(self, *, capacity: int = 1 << 30, failures: float = 0.0, seed: int = 0) -> None:
        self._blocks: dict[str, tuple[bytes, int]] = {}
        self._capacity = capacity
        self._failures = failures
        self._random = random.Random(seed)
        self._clock = 0

    async def put(self, hash: str, data: bytes | bytearray) -> None:
        """Keep a block."""
        self._fail()
        if hash not in self._blocks and await self.free() < len(data):
            raise Full(f"{hash}: no room")
        self._clock += 1
        self._blocks[hash] = (bytes(data), self._clock)

    async def get(self, hash: str) -> bytes:
        """The block, verified."""
        self._fail()
        data, _ = self._find(hash)
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != hash:
            raise Corrupt(f"{hash}: rotten")
        return data

    async def head(self, hash: str) -> Stored:
        """What is known of a block."""
        data, at = self._find(hash)
        return Stored(hash, len(data), at)

    async def index(self, prefix: str = "") -> AsyncGenerator[Stored]:
        """Blocks by prefix."""
        for hash in sorted(self._blocks):
            if hash.startswith(prefix):
                yield await self.head(hash)

    async def free(self) -> int:
        """Bytes that can still be kept."""
        return max(0, self._capacity - sum(len(data) for data, _ in self._blocks.values()))

    def rot(self, hash: str) -> None:
        """Change one bit of a block behind everyone's back."""
        data, at = self._find(hash)
        self._blocks[hash] = (bytes([data[0] ^ 1]) + data[1:], at)

    def _find(self, hash: str) -> tuple[bytes, int]:
        try:
            return self._blocks[hash]
        except KeyError:
            raise NotFound(f"{hash}: no such block") from None

    def _fail(self) -> None:
        if self._random.random() < self._failures:
            raise Unavailable("the volume failed")

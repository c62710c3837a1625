from __future__ import annotations

import asyncio

import pytest

from lading.client.block_cache import BlockCache
from lading.client.blocks import BlockClient
from lading.core.errors import Unavailable


class Counter(BlockClient):
    """Counts what is asked for; the first `failures` fail."""

    def __init__(self, failures: int = 0) -> None:
        self.asked: list[str] = []
        self._failures = failures

    async def get(self, locator: str) -> bytes:
        self.asked.append(locator)
        await asyncio.sleep(0)
        if len(self.asked) <= self._failures:
            raise Unavailable("no")
        return locator.encode()


async def test_a_cache_asks_once_for_many() -> None:
    blocks = Counter()
    cache = BlockCache(blocks)
    cache.expect("a" * 32)
    assert await asyncio.gather(*(cache.get("a" * 32) for _ in range(5))) == [b"a" * 32] * 5
    assert blocks.asked == ["a" * 32]


async def test_a_cache_forgets_what_was_not_used_for_longest() -> None:
    blocks = Counter()
    cache = BlockCache(blocks, keep=2)
    for name in "abacab":
        await cache.get(name * 32)
    assert [one[0] for one in blocks.asked] == ["a", "b", "c", "b"]


async def test_a_cache_does_not_keep_failures() -> None:
    cache = BlockCache(Counter(failures=1))
    with pytest.raises(Unavailable):
        await cache.get("a" * 32)
    assert await cache.get("a" * 32) == b"a" * 32


async def test_closing_a_cache_gives_up() -> None:
    cache = BlockCache(Counter())
    cache.expect("a" * 32)
    await cache.close()
    await cache.close()

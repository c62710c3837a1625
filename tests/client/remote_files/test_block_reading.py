"""Ranges of files in blocks."""

from __future__ import annotations

import hashlib

import pytest

from lading.client.block_cache import BlockCache
from lading.client.remote_files.block_reading import RangeReader
from lading.core.data.filetree import File, Segment
from lading.core.errors import Corrupt, Forbidden


class Blocks:
    """Blocks by their hashes, and the locators that were asked for."""

    def __init__(self, *contents: bytes) -> None:
        self._contents = {hashlib.md5(data).hexdigest(): data for data in contents}
        self.locators = [f"{digest}+{len(data)}" for digest, data in self._contents.items()]
        self.gets: list[str] = []

    async def get(self, locator: str) -> bytes:
        self.gets.append(locator)
        if locator.endswith("+Aold"):
            raise Forbidden("the signature is over")
        return self._contents[locator[:32]]


def reader(blocks: Blocks, *segments: tuple[int, int, int], cache: int = 1 << 20) -> RangeReader:
    file = File(
        tuple(Segment(blocks.locators[block], at, length) for block, at, length in segments)
    )
    return RangeReader(file, BlockCache(blocks, keep_bytes=cache))


async def test_ranges_of_several_blocks() -> None:
    blocks = Blocks(b"0123456789", b"abcdefghij", b"ABC")
    ranges = reader(blocks, (0, 2, 5), (1, 0, 10), (2, 1, 2))
    content = b"23456abcdefghijBC"
    assert ranges.size == len(content)
    for start in range(len(content) + 1):
        for end in range(start, len(content) + 3):
            assert await ranges.read(start, end) == content[start:end]
    assert len(blocks.gets) == 3


async def test_only_the_blocks_of_a_range_are_fetched() -> None:
    blocks = Blocks(b"0123", b"abcd", b"ABCD")
    ranges = reader(blocks, (0, 0, 4), (1, 0, 4), (2, 0, 4))
    assert await ranges.read(9, 11) == b"BC"
    assert blocks.gets == [blocks.locators[2]]


async def test_a_reader_in_order_has_the_next_block_fetched_ahead() -> None:
    blocks = Blocks(b"0123", b"abcd")
    ranges = reader(blocks, (0, 0, 4), (1, 0, 4))
    assert await ranges.read(0, 4) == b"0123"
    assert await ranges.read(4, 8) == b"abcd"
    assert blocks.gets == blocks.locators


async def test_few_bytes_are_kept() -> None:
    blocks = Blocks(b"0123", b"abcd")
    ranges = reader(blocks, (0, 0, 4), (1, 0, 4), cache=4)
    for _ in range(2):
        assert await ranges.read(5, 6) == b"b"
        assert await ranges.read(1, 2) == b"1"
    assert len(blocks.gets) == 4


async def test_a_signature_is_renewed() -> None:
    blocks = Blocks(b"0123")

    async def renew(locator: str) -> str:
        return locator.removesuffix("+Aold")

    file = File((Segment(f"{blocks.locators[0]}+Aold", 0, 4),))
    assert await RangeReader(file, BlockCache(blocks), renew).read(0, 4) == b"0123"
    with pytest.raises(Forbidden):
        await RangeReader(file, BlockCache(blocks)).read(0, 4)


async def test_a_file_beyond_its_block() -> None:
    with pytest.raises(Corrupt, match="reaches beyond this block"):
        await reader(Blocks(b"0123"), (0, 2, 4)).read(0, 4)

"""Streams as blocks."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from lading.client.remote_files.block_writing import BlockWriter
from lading.core.errors import Full


class Store:
    """Takes blocks, some of them never or not at all."""

    def __init__(self, *, hangs: bool = False, is_full: bool = False) -> None:
        self.blocks: list[bytes] = []
        self._hangs, self._is_full = hangs, is_full

    async def put(self, data: bytearray) -> str:
        if self._hangs:
            await asyncio.Event().wait()
        if self._is_full:
            raise Full("no room")
        self.blocks.append(bytes(data))
        return f"{hashlib.md5(data).hexdigest()}+{len(data)}"


@pytest.mark.parametrize("size", [1, 3, 4, 5, 100])
async def test_any_pieces_give_the_same_blocks(size: int) -> None:
    store, content = Store(), bytes(range(10))
    async with BlockWriter(store.put, block=4) as writer:
        for start in range(0, len(content), size):
            await writer.write(memoryview(content)[start : start + size])
        file = await writer.finish()
    assert store.blocks == [content[:4], content[4:8], content[8:]]
    assert [segment.length for segment in file.segments] == [4, 4, 2]
    assert file.size == 10


async def test_an_empty_stream_has_no_block() -> None:
    store = Store()
    async with BlockWriter(store.put) as writer:
        assert (await writer.finish()).segments == ()
    assert store.blocks == []


async def test_an_error_is_raised_by_a_later_call() -> None:
    async with BlockWriter(Store(is_full=True).put, block=4) as writer:
        await writer.write(b"0123")
        with pytest.raises(Full):
            await writer.finish()


async def test_an_aborted_stream_leaves_no_transfer() -> None:
    async with BlockWriter(Store(hangs=True).put, block=4) as writer:
        await writer.write(b"01234")
    assert [task.get_name() for task in asyncio.all_tasks()].count("put block") == 0

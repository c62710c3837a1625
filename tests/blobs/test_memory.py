from __future__ import annotations

import asyncio

import pytest

from lading.blobs import memory as memory_module
from lading.blobs.memory import Memory
from lading.core.errors import Unavailable
from lading.core.locator import MAX_BLOCK


async def test_room_is_given_up_to_the_limit_and_then_waited_for() -> None:
    memory = Memory(2 * MAX_BLOCK)
    first, second = [await memory.take(MAX_BLOCK, "block") for _ in range(2)]
    third = asyncio.create_task(memory.take(MAX_BLOCK, "block"))
    fourth = asyncio.create_task(memory.take(5, "block"))
    await asyncio.sleep(0)
    assert not third.done()
    assert not fourth.done()
    first.release()
    first.release()
    assert memory.taken == 2 * MAX_BLOCK
    (await third).release()
    with await fourth as room:
        assert len(room.view) == 5
    second.release()
    assert memory.taken == 0


async def test_who_waits_too_long_is_told_to_come_again() -> None:
    memory = Memory(0, patience=0.01)
    with await memory.take(MAX_BLOCK, "first"), pytest.raises(Unavailable, match="second: the store is busy"):
        await memory.take(1, "second")
    (await memory.take(MAX_BLOCK, "third")).release()


async def test_who_leaves_the_queue_lets_the_next_one_in() -> None:
    memory = Memory(0)
    held = await memory.take(MAX_BLOCK - 10, "first")
    large = asyncio.create_task(memory.take(MAX_BLOCK, "large"))
    small = asyncio.create_task(memory.take(10, "small"))
    await asyncio.sleep(0)
    large.cancel()
    assert len((await small).view) == 10
    held.release()
    assert memory.taken == 10


async def test_a_turn_that_comes_too_late_is_given_back() -> None:
    memory = Memory(0)
    held = await memory.take(MAX_BLOCK, "first")
    waiting = asyncio.create_task(memory.take(5, "second"))
    await asyncio.sleep(0)
    held.release()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert memory.taken == 0


async def test_memory_is_used_again_but_not_while_somebody_looks_at_it() -> None:
    memory = Memory(MAX_BLOCK)
    room = await memory.take(2 << 20, "block")
    room.view[:3] = b"foo"
    piece = room.view[:3]
    room.release()
    with await memory.take(2 << 20, "block") as other:
        other.view[:3] = b"bar"
        assert bytes(piece) == b"foo"
    with await memory.take(2 << 20, "block") as again:
        assert bytes(again.view[:3]) == b"bar"


async def test_memory_that_nobody_wants_any_more_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "_REST", 0.0)
    memory = Memory(2 * MAX_BLOCK)
    rooms = [await memory.take(MAX_BLOCK, "block") for _ in range(2)]
    for room in rooms:
        room.release()
    assert len(memory._idle) == 2
    while memory._idle:
        await asyncio.sleep(0)

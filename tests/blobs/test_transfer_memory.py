from __future__ import annotations

import asyncio

import pytest

from lading.blobs.transfer_memory import Memory
from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import Unavailable


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
    with (
        await memory.take(MAX_BLOCK, "first"),
        pytest.raises(Unavailable, match="second: the store is busy"),
    ):
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


async def test_memory_that_nobody_wants_any_more_is_let_go() -> None:
    memory = Memory(2 * MAX_BLOCK, idle_time=0.0)
    rooms = [await memory.take(MAX_BLOCK, "block") for _ in range(2)]
    for room in rooms:
        room.release()
    assert memory.idle == 2
    while memory.idle:
        await asyncio.sleep(0)


async def test_a_block_that_comes_has_what_came_and_a_little_more() -> None:
    memory = Memory(MAX_BLOCK)
    with await memory.begin(MAX_BLOCK, "block") as room:
        first = memory.taken
        assert 0 < first == room.taken < MAX_BLOCK // 8
        assert room.extend(0) == first
        assert room.extend(first) > first
        room.settle(5)
        assert memory.taken == 5
    assert memory.taken == 0


async def test_the_requests_of_one_token_have_their_share_and_others_the_rest() -> None:
    memory = Memory(4 * MAX_BLOCK, share=0.5)
    mine = [await memory.take(MAX_BLOCK, "block", holder="me") for _ in range(2)]
    third = asyncio.create_task(memory.take(MAX_BLOCK, "block", holder="me"))
    await asyncio.sleep(0)
    assert not third.done()
    other = await memory.take(MAX_BLOCK, "block", holder="other")
    mine[0].release()
    (await third).release()
    other.release()
    mine[1].release()
    assert memory.taken == 0


async def test_the_token_with_least_is_next() -> None:
    memory = Memory(2 * MAX_BLOCK, share=1.0)
    held = [await memory.take(MAX_BLOCK, "block", holder="greedy") for _ in range(2)]
    greedy = asyncio.create_task(memory.take(MAX_BLOCK, "block", holder="greedy"))
    await asyncio.sleep(0)
    modest = asyncio.create_task(memory.take(MAX_BLOCK, "block", holder="modest"))
    await asyncio.sleep(0)
    held[0].release()
    got = await modest
    assert not greedy.done()
    got.release()
    (await greedy).release()
    held[1].release()


async def test_blocks_that_come_together_all_get_their_memory() -> None:
    memory = Memory(2 * MAX_BLOCK, share=0.5)

    async def come(name: int) -> None:
        with await memory.begin(
            MAX_BLOCK, f"block {name}", holder="me" if name % 2 else "other"
        ) as room:
            filled = 0
            while filled < MAX_BLOCK:
                allowed = room.extend(filled)
                filled = allowed if allowed > filled else await room.extended(filled)
                assert memory.taken <= 2 * MAX_BLOCK
                await asyncio.sleep(0)

    await asyncio.gather(*(come(name) for name in range(12)))
    assert memory.taken == 0


async def test_who_waits_in_vain_leaves_nothing() -> None:
    memory = Memory(MAX_BLOCK, share=0.5, patience=0.01)
    with await memory.take(MAX_BLOCK, "first", holder="me") as room:
        for holder in ("me", "other"):
            with pytest.raises(Unavailable, match="busy"):
                await memory.begin(10, "second", holder=holder)
        assert memory.taken == MAX_BLOCK == room.taken
    with await memory.begin(10, "third", holder="me"):
        assert memory.taken == 10

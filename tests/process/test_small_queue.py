"""A small queue for one receiver."""

from __future__ import annotations

import asyncio

import pytest

from lading.process.small_queue import SmallQueue


async def test_items_come_in_order() -> None:
    queue = SmallQueue[int](3)
    await queue.put(1)
    queue.put_at_once(2)
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == [1, 2]


async def test_a_receiver_waits_for_an_item() -> None:
    queue = SmallQueue[int](1)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.put_at_once(7)
    assert await waiting == 7


async def test_a_cancelled_receiver_loses_nothing() -> None:
    queue = SmallQueue[int](1)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.put_at_once(7)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await queue.get() == 7


async def test_an_arrival_is_awaited_for_a_while() -> None:
    queue, loop = SmallQueue[int](1), asyncio.get_running_loop()
    assert not await queue.arrival_by(loop.time() + 0.001)
    waiting = asyncio.create_task(queue.arrival_by(loop.time() + 60))
    await asyncio.sleep(0)
    queue.put_at_once(1)
    assert await waiting
    assert await queue.arrival_by(0)


async def test_a_full_queue_takes_nothing_at_once() -> None:
    queue = SmallQueue[int](1)
    queue.put_at_once(1)
    assert queue.is_full
    with pytest.raises(asyncio.QueueFull):
        queue.put_at_once(2)


async def test_all_senders_come_in_in_time() -> None:
    queue = SmallQueue[int](1)
    senders = [asyncio.create_task(queue.put(one)) for one in range(4)]
    await asyncio.sleep(0)
    assert sorted([await queue.get() for _ in senders]) == [0, 1, 2, 3]
    await asyncio.gather(*senders)


async def test_dropping_all_items_makes_room() -> None:
    queue = SmallQueue[int](1)
    queue.put_at_once(1)
    sender = asyncio.create_task(queue.put(2))
    await asyncio.sleep(0)
    queue.clear()
    await sender
    assert await queue.get() == 2

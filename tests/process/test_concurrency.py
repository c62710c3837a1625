from __future__ import annotations

import asyncio

import pytest

from lading.process.concurrency import (
    SmallQueue,
    StopEvent,
    WorkCancelled,
    drain,
    finish_within,
    together,
    unless,
    wait_at_most,
)


async def test_all_of_it_is_done() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        done.append(number)

    await together(work(1), work(2))
    assert done == [1, 2]


async def test_the_first_failure_ends_the_others() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await together(wait(), fail())
    assert ended.is_set()


async def test_a_time_out_after_a_failure_is_told_as_one() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("gone")

    with pytest.raises(LookupError):
        await together(fail())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


async def test_the_result_of_the_work_is_returned() -> None:
    async def work() -> int:
        return 7

    assert await unless(StopEvent(), work()) == 7


async def test_work_begun_after_the_stop_is_cancelled_at_its_first_wait() -> None:
    stop, begun = StopEvent(), list[str]()
    stop.set()

    async def work() -> None:
        begun.append("work")
        await asyncio.Event().wait()

    with pytest.raises(WorkCancelled):
        await unless(stop, work())
    assert begun == ["work"]


async def test_a_cancellation_from_outside_stays_one() -> None:
    stop = StopEvent()

    async def caller() -> None:
        await unless(stop, asyncio.Event().wait())

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    stop.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stop_leaves_the_time_limits_of_its_task_intact() -> None:
    stop = StopEvent()
    stop.set()
    with pytest.raises(WorkCancelled):
        await unless(stop, asyncio.Event().wait())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


async def test_an_error_while_the_work_is_cancelled_is_told_as_its_cancellation() -> None:
    stop = StopEvent()
    stop.set()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError

    with pytest.raises(WorkCancelled):
        await unless(stop, work())


async def test_a_stop_is_not_heard_at_first_when_so_wanted() -> None:
    stop = StopEvent()

    async def work() -> int:
        stop.set()
        for _ in range(3):
            await asyncio.sleep(0)
        return 7

    assert await unless(stop, work(), deaf=60.0) == 7


async def test_draining_waits_for_the_end_or_the_limit_and_shorter_after_a_stop() -> None:
    stop, go = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go.wait()

    task = asyncio.create_task(work())
    await drain(task, stop, limit=0.01, grace=60.0)
    assert not task.done()
    stop.set()
    await drain(task, stop, limit=60.0, grace=0.01)
    assert not task.done()
    go.set()
    await drain(task, stop, limit=60.0, grace=60.0)
    assert task.done()


async def test_work_goes_on_until_somebody_stops_it() -> None:
    stop, ended = StopEvent(), list[str]()

    async def work() -> None:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    with pytest.raises(WorkCancelled):
        await unless(stop, work())
    assert ended == ["work"]


async def test_work_may_end_while_there_is_grace() -> None:
    stop, go = StopEvent(), asyncio.Event()

    async def work() -> int:
        stop.set()
        await go.wait()
        return 7

    asyncio.get_running_loop().call_later(0.01, go.set)
    assert await unless(stop, work(), grace=60.0) == 7


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        raise ValueError

    with pytest.raises(ValueError):
        await unless(StopEvent(), work())


async def test_a_wait_ends_with_its_event_or_its_time() -> None:
    event = asyncio.Event()
    await wait_at_most(event, 0.01)
    asyncio.get_running_loop().call_later(0.01, event.set)
    async with asyncio.timeout(10):
        await wait_at_most(event, 60.0)
        await wait_at_most(event, 60.0)


async def test_work_in_time_gives_its_result_or_its_error() -> None:
    async def divide(number: int) -> float:
        return 6 / number

    assert await finish_within(divide(3), 3600.0) == 2.0
    with pytest.raises(ZeroDivisionError):
        await finish_within(divide(0), 3600.0)


async def test_late_work_is_cancelled_in_a_task_that_was_cancelled_before_too() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("late")

    async def tidy_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(TimeoutError):
                await finish_within(wait(), 0.0)

    task = asyncio.create_task(tidy_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["late"]


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancellation_is_heard_whenever_the_work_ends(turns: int) -> None:
    event, after = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        await wait_at_most(event, 3600.0)
        await after.wait()

    task = asyncio.create_task(wait())
    for _ in range(10):
        await asyncio.sleep(0)
    event.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(10):
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


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

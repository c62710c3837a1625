from __future__ import annotations

import asyncio

import pytest

from lading.supervisor.gather_or_cancel import WorkCancelled, together, unless


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


async def test_what_is_over_at_once_asks_nobody() -> None:
    asked: list[bool] = []

    async def ask() -> None:
        asked.append(True)

    async def work() -> int:
        return 7

    assert await unless(ask(), work()) == 7
    assert asked == []


async def test_work_goes_on_until_somebody_stops_it() -> None:
    stop, ended = asyncio.Event(), list[str]()

    async def work() -> None:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    with pytest.raises(WorkCancelled):
        await unless(stop.wait(), work())
    assert ended == ["work"]


async def test_work_may_end_while_there_is_grace() -> None:
    stop, go = asyncio.Event(), asyncio.Event()

    async def work() -> int:
        stop.set()
        await go.wait()
        return 7

    asyncio.get_running_loop().call_later(0.01, go.set)
    assert await unless(stop.wait(), work(), grace=60.0) == 7


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        raise ValueError

    with pytest.raises(ValueError):
        await unless(asyncio.Event().wait(), work())

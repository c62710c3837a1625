from __future__ import annotations

import asyncio

import pytest

from lading.supervisor.together import together


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

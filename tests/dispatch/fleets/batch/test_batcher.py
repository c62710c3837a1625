"""Doing alike things together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from lading.core.errors import Conflict, Unavailable
from lading.dispatch.fleets.batch.batcher import Batcher


class Desk:
    """Batches that end when `gate` opens."""

    def __init__(self, *, most: int = 3, workers: int = 1) -> None:
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        self.gathering = Batcher[str](
            self.work, alike=lambda one: one[0], most=most, workers=workers
        )

    async def work(self, batch: Sequence[str]) -> None:
        self.batches.append(list(batch))
        await self.gate.wait()
        if self.error:
            raise self.error


@asynccontextmanager
async def running(desk: Desk) -> AsyncIterator[None]:
    task = asyncio.create_task(desk.gathering.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def turns(number: int = 10) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_what_comes_meanwhile_is_done_together_by_kind() -> None:
    desk = Desk()
    async with running(desk):
        asks = [asyncio.create_task(desk.gathering.ask("a0"))]
        await turns()
        asks += [
            asyncio.create_task(desk.gathering.ask(one)) for one in ("a1", "b1", "a2", "a3", "a4")
        ]
        await turns()
        assert desk.batches == [["a0"]]
        desk.gate.set()
        await asyncio.gather(*asks)
    assert desk.batches == [["a0"], ["a1", "a2", "a3"], ["b1"], ["a4"]]


async def test_everybody_in_a_batch_hears_of_its_failure() -> None:
    desk = Desk()
    desk.error = Conflict("no")
    desk.gate.set()
    async with running(desk):
        answers = await asyncio.gather(
            *(desk.gathering.ask(one) for one in ("a1", "a2")), return_exceptions=True
        )
    assert [str(one) for one in answers] == ["no", "no"]


async def test_whoever_has_left_is_left_out() -> None:
    desk = Desk()
    async with running(desk):
        first = asyncio.create_task(desk.gathering.ask("a0"))
        await turns()
        second = asyncio.create_task(desk.gathering.ask("a1"))
        await turns()
        second.cancel()
        await turns()
        desk.gate.set()
        await first
        await turns()
    assert desk.batches == [["a0"]]


async def test_stopping_leaves_nobody_waiting() -> None:
    desk = Desk()
    async with running(desk):
        under_way = asyncio.create_task(desk.gathering.ask("a0"))
        await turns()
        waiting = asyncio.create_task(desk.gathering.ask("b0"))
        await turns()
    with pytest.raises(Unavailable):
        await under_way
    with pytest.raises(asyncio.CancelledError):
        await waiting

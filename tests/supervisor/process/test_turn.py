from __future__ import annotations

import asyncio

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.process.turn import ASKING, PREPARING, Turn


class Listener:
    """Hears what a container says, and lets it go on when told to."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.heard: list[bytes] = []
        self.go = asyncio.Event()
        self._is_there = is_there

    def say(self, word: bytes) -> bool:
        self.heard.append(word)
        return self._is_there

    def turn(self, *, patience: float = 0.0) -> Turn:
        async def wait() -> None:
            await self.go.wait()

        return Turn(self.say, wait, patience=patience)


async def long() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_prepares_quickly_says_nothing() -> None:
    listener = Listener()
    await listener.turn(patience=60.0).prepare(asyncio.sleep(0))
    assert listener.heard == []


async def test_who_takes_long_asks_and_waits() -> None:
    listener = Listener()
    task = asyncio.create_task(listener.turn().prepare(long()))
    while listener.heard != [PREPARING, ASKING]:
        await asyncio.sleep(0)
    assert not task.done()
    listener.go.set()
    await task


async def test_where_nobody_listens_it_goes_on() -> None:
    listener = Listener(is_there=False)
    await listener.turn().prepare(long())
    assert listener.heard == [PREPARING]


async def test_what_fails_does_not_ask() -> None:
    async def fail() -> None:
        await long()
        raise ExecutionError("no image")

    listener = Listener()
    with pytest.raises(ExecutionError, match="no image"):
        await listener.turn().prepare(fail())
    assert listener.heard == [PREPARING]

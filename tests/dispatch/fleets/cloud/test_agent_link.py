from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from lading.core.errors import Unavailable
from lading.dispatch.fleets.cloud.agent_link import Link, Message


class Pipe:
    """The other side, in memory."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.broken = False

    def write(self, data: bytes) -> None:
        if self.broken:
            raise BrokenPipeError("gone")
        self.written.append(msgspec.json.decode(data))

    async def drain(self) -> None: ...

    def say(self, **message: Any) -> None:
        self.inbox.put_nowait(msgspec.json.encode(message))

    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self.inbox.get()) is not None:
            yield line


class Ends:
    def __init__(self) -> None:
        self.pipe, self.strays = Pipe(), list[Message]()
        self.link = Link(self.pipe.lines(), self.pipe, stray=self.strays.append)


async def test_answers_find_who_asked_in_any_order() -> None:
    ends = Ends()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(ends.link.serve())
        first = tasks.create_task(ends.link.request("list", timeout=5.0))
        second = tasks.create_task(ends.link.request("signal", timeout=5.0, uuid="u"))
        await asyncio.sleep(0)
        ends.pipe.say(op="signalled", id=2)
        ends.pipe.say(op="listed", id=1, live=[1], more=True)
        ends.pipe.say(op="ended", uuid="u")
        ends.pipe.say(op="listed", id=1, live=[2], more=False)
        assert (await first)["live"] == [1, 2]
        assert (await second)["op"] == "signalled"
        ends.pipe.inbox.put_nowait(b"not json")
        ends.pipe.inbox.put_nowait(None)
        await serving
    assert [one["op"] for one in ends.pipe.written] == ["list", "signal"]
    assert ends.strays == [{"op": "ended", "uuid": "u"}]


async def test_the_end_of_the_connection_ends_every_wait() -> None:
    ends = Ends()
    asking = asyncio.create_task(ends.link.request("list", timeout=5.0))
    await asyncio.sleep(0)
    ends.pipe.inbox.put_nowait(None)
    await ends.link.serve()
    with pytest.raises(Unavailable, match="was lost"):
        await asking
    assert not ends.link.open
    with pytest.raises(Unavailable, match="no connection"):
        await ends.link.request("list", timeout=5.0)


async def test_no_answer_in_time_is_said_and_a_late_one_is_a_stray() -> None:
    ends = Ends()
    with pytest.raises(Unavailable, match="did not answer to start in 0 s"):
        await ends.link.request("start", timeout=0)
    ends.pipe.say(op="started", id=1, uuid="u")
    ends.pipe.inbox.put_nowait(None)
    await ends.link.serve()
    assert ends.strays[0]["op"] == "started"


async def test_what_cannot_be_sent_is_said() -> None:
    ends = Ends()
    ends.pipe.broken = True
    with pytest.raises(Unavailable, match="cannot be reached: gone"):
        await ends.link.request("list", timeout=5.0)

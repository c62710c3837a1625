"""Requests and answers over the socketpair."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from lading.core.errors import Unavailable
from lading.dispatch.fleets.forkserver_channel import Answer, Channel


class Pair:
    """A channel and, for the test to play the other side, the other socket."""

    def __init__(self) -> None:
        ours, self.other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.strays: list[Answer] = []
        self.channel = Channel(ours, stray=self.strays.append)

    def ask(self, op: str = "list", *, timeout: float = 10.0) -> asyncio.Task[Answer]:
        return asyncio.ensure_future(self.channel.request(op, timeout=timeout))

    async def heard(self) -> dict[str, Any]:
        self.other.setblocking(False)
        data = await asyncio.get_running_loop().sock_recv(self.other, 1 << 16)
        message: dict[str, Any] = json.loads(data)
        return message

    def say(self, descriptors: tuple[int, ...] = (), **message: object) -> None:
        socket.send_fds(self.other, [json.dumps(message).encode()], descriptors)


@pytest.fixture
async def pair() -> Any:
    made = Pair()
    yield made
    made.channel.close()
    made.other.close()


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = os.open("/dev/null", os.O_RDONLY)
    yield made
    os.close(made)


async def test_answers_find_their_requests_in_any_order(pair: Pair) -> None:
    first, second = pair.ask("one"), pair.ask("two")
    one, two = await pair.heard(), await pair.heard()
    pair.say(op="b", id=two["id"])
    pair.say(op="a", id=one["id"])
    assert [(await first).op, (await second).op] == ["a", "b"]


async def test_answers_in_parts_are_put_together(pair: Pair, descriptor: int) -> None:
    asked = pair.ask()
    number = (await pair.heard())["id"]
    pair.say((descriptor,), op="listed", id=number, live=["a"], more=True)
    pair.say((descriptor,), op="listed", id=number, live=["b"], more=False)
    answer = await asked
    assert answer.message["live"] == ["a", "b"]
    assert len(answer.descriptors) == 2
    answer.close()


async def test_the_other_side_goes(pair: Pair) -> None:
    asked = pair.ask()
    await pair.heard()
    pair.other.close()
    with pytest.raises(Unavailable, match="is gone"):
        await asked
    await pair.channel.wait_closed()
    with pytest.raises(Unavailable, match="is gone"):
        await pair.ask()
    pair.channel.close()


async def test_the_other_side_goes_before_it_is_seen(pair: Pair) -> None:
    pair.other.close()
    with pytest.raises(Unavailable):
        await pair.channel.request("list", timeout=1)


async def test_a_late_answer_is_a_stray_one(pair: Pair, descriptor: int) -> None:
    with pytest.raises(Unavailable, match=r"did not answer to start in 0\.01 s"):
        await pair.channel.request("start", timeout=0.01)
    pair.say((descriptor,), op="started", id=(await pair.heard())["id"], uuid="u")
    while not pair.strays:
        await asyncio.sleep(0)
    (stray,) = pair.strays
    assert (stray.op, len(stray.descriptors)) == ("started", 1)
    stray.close()


async def test_parts_of_an_answer_that_never_ended_are_strays(pair: Pair) -> None:
    asked = pair.ask(timeout=0.05)
    number = (await pair.heard())["id"]
    pair.say(op="listed", id=number, more=True)
    pair.say(op="listed", id=number, more=True)
    with pytest.raises(Unavailable):
        await asked
    assert len(pair.strays) == 2


@pytest.mark.parametrize("data", [b"not JSON", b"[]", b'{"id": "x"}'])
async def test_nonsense_is_a_stray_without_meaning(pair: Pair, data: bytes) -> None:
    pair.other.send(data)
    while not pair.strays:
        await asyncio.sleep(0)
    assert pair.strays[0].op == "None"

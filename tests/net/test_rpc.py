"""Requests and replies over sockets, pipes and lines."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lading.core.errors import Malformed, TooLarge, Unavailable
from lading.net import rpc
from lading.net.rpc import LIMIT, LineChannel, LinePipe, PacketChannel, RpcReply


class Pair:
    """A channel and, for the test to play the other side, the other socket."""

    def __init__(self) -> None:
        ours, self.other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.strays: list[RpcReply] = []
        self.channel = PacketChannel(ours, peer="The peer", stray=self.strays.append)

    def ask(self, op: str = "list", *, timeout: float = 10.0) -> asyncio.Task[RpcReply]:
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


@pytest.mark.parametrize("data", [b"not JSON", b"[]", b'{"id": "x"}', b"[" * 2000])
async def test_nonsense_is_a_stray_without_meaning(pair: Pair, data: bytes) -> None:
    pair.other.send(data)
    while not pair.strays:
        await asyncio.sleep(0)
    assert pair.strays[0].op == "None"


async def test_a_reply_that_is_too_large_ends_the_connection(pair: Pair, descriptor: int) -> None:
    asked = pair.ask()
    await pair.heard()
    pair.channel.descriptors = 1
    pair.say((descriptor,) * 2, op="listed")
    with pytest.raises(Unavailable, match="is gone"):
        await asked


def test_packets_have_limits(descriptor: int) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with one, other:
        for data, descriptors in (
            (b"x" * 11, ()),
            (b"x", (descriptor,)),
            (b"x", (descriptor,) * 2),
        ):
            rpc.send_packet(one, data, descriptors)
            with pytest.raises(TooLarge):
                rpc.receive_packet(other, limit=10, descriptors=max(0, len(descriptors) - 1))
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        rpc.send_packet(one, {"a": 1}, (descriptor,))
        packet = rpc.receive_packet(other, descriptors=1)
        assert packet.data == b'{"a":1}'
        assert not os.get_inheritable(packet.descriptors[0])
        packet.close()
        one.close()
        assert rpc.receive_packet(other) == rpc.Packet(b"")


async def test_a_packet_is_waited_for() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        other.setblocking(False)
        waiting = asyncio.create_task(rpc.wait_packet(other))
        await asyncio.sleep(0)
        rpc.send_packet(one, b"data")
        assert (await waiting).data == b"data"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_a_line_is_read_and_nothing_after_it(pipe: tuple[int, int]) -> None:
    rpc.write_line(pipe[1], {"a": "b\n"})
    rpc.write_all(pipe[1], b"more")
    assert rpc.read_line(pipe[0], dict[str, str], timeout=10) == {"a": "b\n"}
    assert os.read(pipe[0], 100) == b"more"


def test_a_line_that_is_wrong(pipe: tuple[int, int]) -> None:
    rpc.write_all(pipe[1], b"[1\n" + b"x" * 20)
    with pytest.raises(Malformed):
        rpc.read_line(pipe[0], dict[str, Any])
    with pytest.raises(TooLarge):
        rpc.read_line(pipe[0], dict[str, Any], limit=10)
    os.read(pipe[0], 100)
    rpc.write_all(pipe[1], b'{"a":' * 2000 + b"\n")
    with pytest.raises(Malformed):
        rpc.read_line(pipe[0], dict[str, Any])
    with pytest.raises(TimeoutError):
        rpc.read_line(pipe[0], dict[str, Any], timeout=0.01)


def test_a_pipe_that_ends_has_no_line() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"{}")
    os.close(writing)
    assert rpc.read_line(reading, dict[str, Any], timeout=10) is None
    os.close(reading)


async def test_messages_in_turns() -> None:
    (a, b), (c, d) = os.pipe(), os.pipe()
    one, other = LinePipe(a, d), LinePipe(c, b)
    await one.open()
    await other.open()
    one.send({"question": 1})
    assert await other.receive(timeout=10) == {"question": 1}
    with pytest.raises(TimeoutError):
        await one.receive(timeout=0.01)
    os.write(b, b"[]\n")
    with pytest.raises(Malformed):
        await one.receive(timeout=10)
    os.close(b)
    assert await one.receive(timeout=10) == {}
    other.reader.feed_data(bytes(LIMIT + 1))
    with pytest.raises(TooLarge):
        await other.receive(timeout=10)
    os.close(d)


class Agent:
    """The other side of a channel of lines, in memory."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.broken = False
        self.strays = list[RpcReply]()
        self.link = LineChannel(
            self.lines(), self, peer="The instance", stray=self.strays.append, faults=(EOFError,)
        )

    def write(self, data: bytes) -> None:
        if self.broken:
            raise EOFError("gone")
        self.written.append(msgspec.json.decode(data))

    async def drain(self) -> None: ...

    def say(self, **message: Any) -> None:
        self.inbox.put_nowait(msgspec.json.encode(message))

    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self.inbox.get()) is not None:
            if line == b"fault":
                raise EOFError
            yield line


async def test_answers_find_who_asked_in_any_order() -> None:
    agent = Agent()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(agent.link.serve())
        first = tasks.create_task(agent.link.request("list", timeout=5.0))
        second = tasks.create_task(agent.link.request("signal", timeout=5.0, uuid="u"))
        await asyncio.sleep(0)
        agent.say(op="signalled", id=2)
        agent.say(op="listed", id=1, live=[1], more=True)
        agent.say(op="ended", uuid="u")
        agent.say(op="listed", id=1, live=[2], more=False)
        assert (await first).get("live") == [1, 2]
        assert (await second).op == "signalled"
        agent.inbox.put_nowait(b"not json")
        agent.inbox.put_nowait(b"x" * (LIMIT + 1))
        agent.inbox.put_nowait(None)
        await serving
    assert [one["op"] for one in agent.written] == ["list", "signal"]
    assert agent.strays == [RpcReply({"op": "ended", "uuid": "u"})]


@pytest.mark.parametrize("last", [None, b"fault"])
async def test_the_end_of_the_connection_ends_every_wait(last: bytes | None) -> None:
    agent = Agent()
    asking = asyncio.create_task(agent.link.request("list", timeout=5.0))
    await asyncio.sleep(0)
    agent.inbox.put_nowait(last)
    await agent.link.serve()
    with pytest.raises(Unavailable, match="is gone"):
        await asking
    assert not agent.link.is_open
    with pytest.raises(Unavailable, match="is gone"):
        await agent.link.request("list", timeout=5.0)


async def test_no_answer_in_time_is_said_and_a_late_one_is_a_stray() -> None:
    agent = Agent()
    with pytest.raises(Unavailable, match="did not answer to start in 0 s"):
        await agent.link.request("start", timeout=0)
    agent.say(op="started", id=1, uuid="u")
    agent.inbox.put_nowait(None)
    await agent.link.serve()
    assert agent.strays[0].op == "started"


async def test_what_cannot_be_sent_is_said() -> None:
    agent = Agent()
    agent.broken = True
    with pytest.raises(Unavailable, match="cannot be reached: gone"):
        await agent.link.request("list", timeout=5.0)

"""Two connections joined, and heads of HTTP messages read from one."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from lading.core.errors import Malformed, Unavailable
from lading.core.protocols import http_head
from lading.net.pacing import Pacer
from lading.net.pipes import PIECE, Pipe, Turns, join, read_head


async def pair(limit: int = 1 << 16) -> tuple[Pipe, Pipe]:
    ours, theirs = socket.socketpair()
    return (
        Pipe(*await asyncio.open_connection(sock=ours, limit=limit)),
        Pipe(*await asyncio.open_connection(sock=theirs, limit=limit)),
    )


async def test_bytes_go_both_ways_until_one_side_ends() -> None:
    client, near = await pair()
    far, server = await pair()
    joined = asyncio.create_task(join(near, far))
    data = os.urandom(3 << 20)
    client.writer.write(data)
    assert await server.reader.readexactly(len(data)) == data
    server.writer.write(b"answer")
    await server.close()
    assert await client.reader.read() == b"answer"
    assert await joined == len(data) + 6
    await client.close()


async def test_a_head_is_read_and_no_more() -> None:
    client, server = await pair()
    client.writer.write(b"GET / HTTP/1.1\r\n\r\nrest")
    assert await read_head(server, timeout=5) == b"GET / HTTP/1.1\r\n\r\n"
    assert await server.reader.readexactly(4) == b"rest"
    await client.close()
    with pytest.raises(Unavailable, match="ended"):
        await read_head(server, timeout=5)
    await server.close()


@pytest.mark.parametrize("limit", [1 << 10, 1 << 20])
async def test_a_head_that_is_too_long(limit: int) -> None:
    client, server = await pair(limit)
    client.writer.write(b"x" * (http_head.MOST + 1) + http_head.END)
    with pytest.raises(Malformed, match="too long"):
        await read_head(server, timeout=5)
    await client.close()
    await server.close()


async def test_nobody_speaks() -> None:
    client, server = await pair()
    with pytest.raises(Unavailable):
        await read_head(server, timeout=0.01)
    await client.close()
    await server.close()


async def test_large_pieces_take_turns_and_small_ones_do_not() -> None:
    """Of two who have much to pass on neither has two turns before the other has had one."""
    turns = Turns()
    had: list[str] = []

    async def pass_on(name: str) -> None:
        for _ in range(5):
            async with turns.one(PIECE):
                had.append(name)

    await asyncio.gather(pass_on("a"), pass_on("b"))
    assert had == ["a", "b"] * 5
    async with turns.one(PIECE), asyncio.timeout(5), turns.one(10):
        had.append("typed")
    assert had[-1] == "typed"


async def test_turns_leave_time_for_others() -> None:
    """What took a millisecond is followed by as long a pause, in which nobody has a turn."""
    times = iter((0.0, 0.0001, 1.0, 1.05))
    turns = Turns(lambda: next(times))
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with turns.one(PIECE):
        pass
    assert passes < 5
    async with turns.one(PIECE):
        pass
    assert passes >= 5
    counting.cancel()


async def test_bytes_that_take_turns_all_arrive() -> None:
    turns = Turns()
    ends = [(await pair(), await pair()) for _ in range(3)]
    joined = [asyncio.create_task(join(one[1], other[0], turns)) for one, other in ends]
    data = os.urandom(3 << 20)
    for one, _ in ends:
        one[0].writer.write(data)
    for _, other in ends:
        assert await other[1].reader.readexactly(len(data)) == data
    for one, other in ends:
        await one[0].close()
        assert await other[1].reader.read() == b""
        await other[1].close()
    assert await asyncio.gather(*joined) == [len(data)] * 3


async def test_a_stream_that_moves_much_gives_way_to_calls_and_loses_nothing() -> None:
    """The clock stands still but for the pauses, in which the time goes by that the rate asks
    for.
    """
    now, paused = 0.0, 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now, paused
        now, paused = now + seconds, paused + seconds
        await asyncio.sleep(0)

    turns = Turns(pacer=Pacer(1e6, clock=lambda: now, sleep=sleep, account=lambda: (now, 0)))
    turns.note_call()
    client, near = await pair()
    far, server = await pair()
    joined = asyncio.create_task(join(near, far, turns))
    data = os.urandom(2 << 20)
    client.writer.write(data)
    assert await server.reader.readexactly(len(data)) == data
    # A mebibyte is free, and the first rate is twice the least.
    assert 0.4 < paused < 1.2
    await client.close()
    assert await joined == len(data)
    await server.close()
    Turns().note_call()

from __future__ import annotations

import asyncio
import socket

import pytest

from lading.api.container_access.supervisor_registry import Tunnels
from lading.core.errors import Unavailable
from lading.net.pipes import Pipe

UUID = "zzzzz-dz642-000000000000001"


async def pair() -> tuple[Pipe, Pipe]:
    ours, theirs = socket.socketpair()
    return Pipe(*await asyncio.open_connection(sock=ours)), Pipe(
        *await asyncio.open_connection(sock=theirs)
    )


async def test_the_latest_tunnel_of_a_container_wins() -> None:
    tunnels = Tunnels(most=1, patience=0.01)
    with pytest.raises(Unavailable, match="down"):
        await tunnels.open(UUID)
    first, first_far = await pair()
    second, second_far = await pair()
    tunnels.check_room(UUID)
    serving = [asyncio.create_task(tunnels.serve(UUID, first))]
    while not tunnels.has(UUID):
        await asyncio.sleep(0)
    tunnels.check_room(UUID)
    with pytest.raises(Unavailable, match="MaxGatewayTunnels"):
        tunnels.check_room("another")
    serving.append(asyncio.create_task(tunnels.serve(UUID, second)))
    await first_far.reader.read()
    await first_far.close()
    await asyncio.wait_for(serving[0], 20)
    assert tunnels.has(UUID)
    pipe = await tunnels.open(UUID)
    await second_far.close()
    assert await asyncio.wait_for(pipe.reader.read(), 20) == b""
    await pipe.close()
    await asyncio.wait_for(serving[1], 20)
    assert not tunnels.has(UUID)


async def test_who_comes_before_the_tunnel_waits_for_it() -> None:
    tunnels = Tunnels(patience=20)
    early = [asyncio.create_task(tunnels.open(UUID)) for _ in range(2)]
    await asyncio.sleep(0)
    near, far = await pair()
    serving = asyncio.create_task(tunnels.serve(UUID, near))
    pipes = await asyncio.wait_for(asyncio.gather(*early), 20)
    await far.close()
    for pipe in pipes:
        assert await asyncio.wait_for(pipe.reader.read(), 20) == b""
        await pipe.close()
    await asyncio.wait_for(serving, 20)

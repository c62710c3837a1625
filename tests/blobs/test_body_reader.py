from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from lading.blobs import transfer
from lading.blobs.transfer import RECEIVE_INTO, Extend, Progress, take_in
from lading.blobs.transfer_memory import Memory, MemoryRoom
from lading.core.data.locator import MAX_BLOCK
from lading.core.errors import TooLarge, Unavailable

DATA = bytes(range(256)) * (3 << 12)


async def room_of(size: int) -> MemoryRoom:
    return await Memory(0).begin(size, "block")


def request_of(
    *pieces: bytes, leaves: bool = False, extensions: dict[str, Any] | None = None
) -> Request:
    waiting = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    waiting.append(
        {"type": "http.disconnect"}
        if leaves
        else {"type": "http.request", "body": b"", "more_body": False}
    )

    async def receive() -> Any:
        return waiting.pop(0)

    return Request({"type": "http", "headers": [], "extensions": extensions or {}}, receive)


class Follower:
    def __init__(self, fault: Exception | None = None) -> None:
        self.seen = bytearray()
        self.pieces = 0
        self.fault = fault

    async def __call__(self, piece: memoryview) -> None:
        if self.fault is not None:
            raise self.fault
        self.pieces += 1
        self.seen += piece


async def test_the_body_lands_in_memory_and_followers_see_all_of_it() -> None:
    room, one, two = await room_of(len(DATA) + 5), Follower(), Follower()
    pieces = [DATA[at : at + 60_000] for at in range(0, len(DATA), 60_000)]
    size = await take_in(request_of(*pieces), room, length=None, followers=(one, two))
    assert bytes(room.view[:size]) == DATA
    assert one.seen == two.seen == DATA
    assert one.pieces <= 4


async def test_an_empty_body_is_followed_by_nobody() -> None:
    follower = Follower()
    assert await take_in(request_of(), await room_of(0), length=0, followers=(follower,)) == 0
    assert follower.pieces == 0


async def test_more_than_fits_is_refused() -> None:
    with pytest.raises(TooLarge):
        await take_in(request_of(b"foo", b"bar"), await room_of(5), length=None, followers=())


async def test_half_a_body_is_no_body() -> None:
    follower = Follower()
    with pytest.raises(ClientDisconnect):
        await take_in(
            request_of(b"foo", leaves=True), await room_of(9), length=9, followers=(follower,)
        )
    assert follower.seen == b""


async def test_a_follower_that_fails_is_heard() -> None:
    with pytest.raises(ValueError, match="no"):
        await take_in(
            request_of(b"foo"), await room_of(3), length=3, followers=(Follower(ValueError("no")),)
        )


@pytest.mark.parametrize("comes", [len(DATA), 100])
async def test_the_extension_writes_where_it_is_wanted(comes: int) -> None:
    async def receive_into(view: memoryview, progress: Progress, extend: Extend) -> int:
        view[:comes] = DATA[:comes]
        assert progress(comes) >= comes
        return comes

    request, follower = request_of(extensions={RECEIVE_INTO: receive_into}), Follower()
    room = await room_of(len(DATA))
    if comes < len(DATA):
        with pytest.raises(ClientDisconnect):
            await take_in(request, room, length=len(DATA), followers=(follower,))
        return
    assert await take_in(request, room, length=len(DATA), followers=(follower,)) == len(DATA)
    assert follower.seen == DATA


async def test_memory_is_taken_as_bytes_come() -> None:
    memory = Memory(0)
    room = await memory.begin(MAX_BLOCK, "block")
    taken = []

    async def receive_into(view: memoryview, progress: Progress, extend: Extend) -> int:
        taken.append(memory.taken)
        taken.append(progress(memory.taken))
        assert await extend(taken[1]) > taken[1]
        taken.append(memory.taken)
        return len(view)

    request = request_of(extensions={RECEIVE_INTO: receive_into})
    with room:
        assert await take_in(request, room, length=MAX_BLOCK, followers=()) == MAX_BLOCK
    assert taken == sorted(taken)
    assert taken[0] == 2 << 20
    assert taken[2] < MAX_BLOCK // 4
    assert memory.taken == 0


async def test_a_body_waits_for_memory_and_gives_up_what_it_does_not_need() -> None:
    memory = Memory(0)
    other = await memory.take(MAX_BLOCK - (3 << 20), "other")
    room = await memory.begin(MAX_BLOCK, "block")
    taking = asyncio.create_task(
        take_in(request_of(*[bytes(1 << 20)] * 5), room, length=None, followers=(), rate=1)
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert not taking.done()
    other.release()
    assert await taking == 5 << 20
    assert memory.taken == 5 << 20
    room.release()


async def test_a_body_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "WINDOW", 0.01)

    async def receive() -> Any:
        await asyncio.Event().wait()

    request = Request({"type": "http", "headers": [], "extensions": {}}, receive)
    with pytest.raises(Unavailable, match="block: fewer than 100 bytes a second came for 0.01 s"):
        await take_in(request, await room_of(100), length=None, followers=(), rate=100)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from lading.blobs.intake import RECEIVE_INTO, take_in
from lading.core.errors import TooLarge

DATA = bytes(range(256)) * (3 << 12)


def request_of(*pieces: bytes, leaves: bool = False, extensions: dict[str, Any] | None = None) -> Request:
    waiting = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    waiting.append({"type": "http.disconnect"} if leaves else {"type": "http.request", "body": b"", "more_body": False})

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
    view, one, two = memoryview(bytearray(len(DATA) + 5)), Follower(), Follower()
    pieces = [DATA[at : at + 60_000] for at in range(0, len(DATA), 60_000)]
    size = await take_in(request_of(*pieces), view, length=None, followers=(one, two))
    assert bytes(view[:size]) == DATA
    assert one.seen == two.seen == DATA
    assert one.pieces <= 4


async def test_an_empty_body_is_followed_by_nobody() -> None:
    follower = Follower()
    assert await take_in(request_of(), memoryview(bytearray()), length=0, followers=(follower,)) == 0
    assert follower.pieces == 0


async def test_more_than_fits_is_refused() -> None:
    with pytest.raises(TooLarge):
        await take_in(request_of(b"foo", b"bar"), memoryview(bytearray(5)), length=None, followers=())


async def test_half_a_body_is_no_body() -> None:
    follower = Follower()
    with pytest.raises(ClientDisconnect):
        await take_in(request_of(b"foo", leaves=True), memoryview(bytearray(9)), length=9, followers=(follower,))
    assert follower.seen == b""


async def test_a_follower_that_fails_is_heard() -> None:
    with pytest.raises(ValueError, match="no"):
        await take_in(request_of(b"foo"), memoryview(bytearray(3)), length=3, followers=(Follower(ValueError("no")),))


@pytest.mark.parametrize("comes", [len(DATA), 100])
async def test_the_extension_writes_where_it_is_wanted(comes: int) -> None:
    async def receive_into(view: memoryview, progress: Callable[[int], None]) -> int:
        view[:comes] = DATA[:comes]
        progress(comes)
        return comes

    request, view, follower = request_of(extensions={RECEIVE_INTO: receive_into}), bytearray(len(DATA)), Follower()
    if comes < len(DATA):
        with pytest.raises(ClientDisconnect):
            await take_in(request, memoryview(view), length=len(DATA), followers=(follower,))
        return
    assert await take_in(request, memoryview(view), length=len(DATA), followers=(follower,)) == len(DATA)
    assert follower.seen == DATA

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from lading.api.http import BodyReader, announced
from lading.config.server import API
from lading.core.errors import Malformed, RequestError, TooLarge, Unauthenticated, Unavailable


class Sender:
    """Sends these pieces, then stays silent or leaves."""

    def __init__(self, *pieces: bytes, leaves: bool = False, ends: bool = True) -> None:
        self.pieces = list(pieces)
        self.leaves = leaves
        self.ends = ends
        self.asked = 0

    async def receive(self) -> MutableMapping[str, Any]:
        self.asked += 1
        if self.pieces:
            more = len(self.pieces) > 1 or not self.ends
            return {"type": "http.request", "body": self.pieces.pop(0), "more_body": more}
        if self.leaves:
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({}, 0),
        ({"content-length": "0"}, 0),
        ({"content-length": "17"}, 17),
        ({"content-length": "1" * 16}, None),
        ({"content-length": "x"}, None),
        ({"transfer-encoding": "chunked"}, None),
    ],
)
def test_what_a_head_announces(headers: dict[str, str], length: int | None) -> None:
    assert announced(headers) == length


async def test_a_body_of_somebody_known_is_read_to_the_end() -> None:
    reader = BodyReader(API(MaxRequestSize=10))
    assert (
        await reader.read(Sender(b"foo", b"bar").receive, {"content-length": "6"}, is_known=True)
        == b"foobar"
    )
    with pytest.raises(TooLarge, match="more than 10 bytes"):
        await reader.read(
            Sender(b"12345678", b"12345").receive, {"transfer-encoding": "chunked"}, is_known=True
        )
    with pytest.raises(Malformed, match="ended before"):
        await reader.read(
            Sender(b"12", ends=False, leaves=True).receive, {"content-length": "3"}, is_known=True
        )


@pytest.mark.parametrize(
    ("headers", "known", "kind"),
    [
        ({"content-length": "11"}, True, TooLarge),
        ({"content-length": "6"}, False, Unauthenticated),
        ({"transfer-encoding": "chunked"}, False, Unauthenticated),
    ],
)
async def test_nothing_of_a_refused_body_is_read(
    headers: dict[str, str], known: bool, kind: type[Exception]
) -> None:
    sender = Sender(b"foo")
    reader = BodyReader(API(MaxRequestSize=10), stranger_body=5)
    with pytest.raises(kind):
        await reader.read(sender.receive, headers, is_known=known)
    assert sender.asked == 0


async def test_bodies_of_strangers_share_a_little_memory() -> None:
    reader = BodyReader(API(), stranger_body=5, stranger_bodies=8)
    slow = asyncio.create_task(
        reader.read(Sender(b"f", ends=False).receive, {"content-length": "5"}, is_known=False)
    )
    await asyncio.sleep(0)
    assert reader.reserved == 5
    with pytest.raises(Unavailable, match="without a token"):
        await reader.read(Sender(b"12345").receive, {"content-length": "5"}, is_known=False)
    assert (
        await reader.read(Sender(b"123").receive, {"content-length": "3"}, is_known=False) == b"123"
    )
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert reader.reserved == 0


async def test_a_body_of_a_stranger_comes_in_time() -> None:
    reader = BodyReader(API(RequestHeadTimeout=0.01))
    with pytest.raises(RequestError, match="did not come within") as told:
        await reader.read(Sender().receive, {"content-length": "5"}, is_known=False)
    assert told.value.status == 408
    assert reader.reserved == 0


async def test_an_application_that_is_called_without_a_head_reads_what_there_is() -> None:
    assert await BodyReader(API()).read(Sender(b"foo").receive, {}, is_known=False) == b"foo"

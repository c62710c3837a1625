from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lading.client.blocks import BlockClient
from lading.client.retry import NO_RETRY
from lading.core.data.filetree import File
from lading.core.errors import LadingError, Unavailable
from lading.fileserving.uploads import BodyIntake
from tests.webdav.site import Site


async def body(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def blocks(here: Site) -> BlockClient:
    return BlockClient(here.transport, here.world.admin, retry=NO_RETRY)


async def content(here: Site, file: File) -> bytes:
    return b"".join(
        [(await blocks(here).get(one.locator))[one.offset :][: one.length] for one in file.segments]
    )


@pytest.mark.parametrize(
    "pieces",
    [(), (b"",), (b"abc",), (b"abcdefgh" * 5,), (b"abc", b"defgh", b"ijk"), (b"abcd",) * 4],
)
async def test_blocks_are_cut(here: Site, pieces: tuple[bytes, ...]) -> None:
    file = await BodyIntake(block=8).store(blocks(here), body(*pieces), length=None, holder="me")
    assert await content(here, file) == b"".join(pieces)
    assert all(one.length == 8 for one in file.segments[:-1])


async def test_a_store_that_fails(here: Site) -> None:
    here.volume.failures = 1.0
    with pytest.raises(LadingError):
        await BodyIntake(block=8).store(blocks(here), body(b"x" * 100), length=100, holder="me")


async def test_a_body_that_breaks_off(here: Site) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"abcdefgh"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await BodyIntake(block=4).store(blocks(here), broken(), length=None, holder="me")


async def test_large_bodies_wait_for_their_turn(here: Site) -> None:
    intake, going, gate = BodyIntake(at_once=1, turn=0.01), asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        going.set()
        await gate.wait()
        yield b"x"

    first = asyncio.create_task(intake.store(blocks(here), slow(), length=None, holder="me"))
    await going.wait()
    with pytest.raises(Unavailable, match="try again later"):
        await intake.store(blocks(here), body(b"y"), length=1 << 30, holder="me")
    assert (await intake.store(blocks(here), body(b"z"), length=1, holder="me")).size == 1
    gate.set()
    assert (await first).size == 1


async def test_large_bodies_of_one_token_leave_turns_to_others(here: Site) -> None:
    intake, gate = BodyIntake(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        await gate.wait()
        yield b"x"

    mine = [
        asyncio.create_task(intake.store(blocks(here), slow(), length=None, holder="me"))
        for _ in range(5)
    ]
    await asyncio.sleep(0)
    assert (await intake.store(blocks(here), body(b"y"), length=None, holder="other")).size == 1
    gate.set()
    assert [one.size for one in await asyncio.gather(*mine)] == [1] * 5

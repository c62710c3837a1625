from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.data.filetree import File, Segment
from lading.core.data.locator import EMPTY_BLOCK
from lading.core.errors import Corrupt, NotFound
from lading.fileserving.byte_ranges import Span
from lading.fileserving.contents import FileReader
from tests.webdav.site import Site

ONE, TWO = b"0123456789", b"abcdefghij"


async def a_file(here: Site) -> File:
    token = here.world.admin
    one = here.world.signed(await here.store(ONE), token)
    two = here.world.signed(await here.store(TWO), token)
    return File(
        (Segment(one, 2, 5), Segment(EMPTY_BLOCK, 0, 0), Segment(two, 0, 10), Segment(one, 0, 2))
    )


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("kept", [1 << 20, 0])
async def test_every_span(here: Site, tmp_path: Path, kept: int) -> None:
    file, whole = await a_file(here), ONE[2:7] + TWO + ONE[:2]
    reader = FileReader(here.transport, tmp_path / "blocks", kept, piece=4, small=3)
    before = descriptors()
    async with reader.reading(here.world.admin) as one:
        for start, end in ((0, 17), (0, 0), (4, 6), (5, 15), (16, 17), (3, 17)):
            got = b"".join([piece async for piece in one.read(file, Span(start, end))])
            assert got == whole[start:end]
    assert descriptors() == before


async def test_who_stops_leaves_nothing_open(here: Site, tmp_path: Path) -> None:
    file, before = await a_file(here), descriptors()
    async with FileReader(here.transport, tmp_path / "blocks", 1 << 20).reading(
        here.world.admin
    ) as one:
        pieces = one.read(file, Span(0, 17))
        assert await anext(pieces) == ONE[2:7]
        await pieces.aclose()
    assert descriptors() == before


async def test_what_is_not_there(here: Site, tmp_path: Path) -> None:
    token = here.world.admin
    gone, short = (
        here.world.signed(f"{'f' * 32}+5", token),
        here.world.signed(await here.store(ONE), token),
    )
    reader = FileReader(here.transport, tmp_path / "blocks", 1 << 20)
    for locator, fault in ((gone, NotFound), (short, Corrupt)):
        async with reader.reading(token) as one:
            with pytest.raises(fault):
                assert [
                    piece async for piece in one.read(File((Segment(locator, 0, 20),)), Span(0, 20))
                ]

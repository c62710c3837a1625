from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.client.file_parts import FilePart, Holes
from lading.core.errors import Invalid

CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(CONTENT)
    with (tmp_path / "file").open("rb") as file:
        yield file.fileno()


async def pieces(part: FilePart) -> list[bytes]:
    return [bytes(piece) async for piece in part]


@pytest.mark.parametrize("is_quick", [True, False])
async def test_a_part_comes_in_pieces(
    descriptor: int, monkeypatch: pytest.MonkeyPatch, is_quick: bool
) -> None:
    def refuse(*_: object) -> int:
        raise OSError

    if not is_quick:
        monkeypatch.setattr(os, "preadv", refuse)
    found = await pieces(FilePart(descriptor, 100, 600_000))
    assert b"".join(found) == CONTENT[100:600_100]
    assert max(map(len, found)) <= 1 << 18


async def test_a_file_that_is_too_short_is_said(descriptor: int) -> None:
    with pytest.raises(Invalid, match=f"{len(CONTENT)} bytes are left"):
        await pieces(FilePart(descriptor, 0, len(CONTENT) + 1))


def test_holes_are_found(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb+") as file:
        file.truncate(10 << 20)
        os.pwrite(file.fileno(), b"x", 5 << 20)
        holes = Holes(file.fileno())
        found = [holes.cover(start << 20, 1 << 20) for start in range(10)]
        assert found == [True] * 5 + [False] + [True] * 4
        # It has become shorter meanwhile.
        assert not holes.cover(9 << 20, 2 << 20)


def test_a_file_system_that_knows_no_holes_has_none(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "lseek", refuse)
    assert not Holes(descriptor).cover(0, 100)

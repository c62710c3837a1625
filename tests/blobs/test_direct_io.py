from __future__ import annotations

import errno
import hashlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lading.blobs import direct_io
from lading.blobs.direct_io import LARGE, Bypass, ReadBefore, read_past_cache
from lading.blobs.directory import DirectoryVolume
from lading.core.errors import Corrupt

DATA = bytes(range(256)) * ((9 << 20) // 256) + b"the end"
HASH = hashlib.md5(DATA, usedforsecurity=False).hexdigest()


def _room(size: int) -> memoryview:
    return memoryview(mmap.mmap(-1, 16 << 20))[:size]


async def _at_once(work: Callable[..., Any], *arguments: object) -> Any:
    return work(*arguments)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "block"
    made.write_bytes(DATA)
    return made


@pytest.mark.parametrize("aligned", [True, False], ids=["whole pages", "any place in memory"])
async def test_all_of_a_file_comes_with_its_hash(path: Path, aligned: bool) -> None:
    view = _room(len(DATA)) if aligned else memoryview(bytearray(len(DATA) + 1))[1:]
    assert await read_past_cache(Bypass(path), view, _at_once) == HASH
    assert view == DATA


async def test_a_file_that_has_become_shorter_has_another_hash(path: Path) -> None:
    file, view = Bypass(path), _room(len(DATA))
    os.truncate(path, 5 << 20)
    found = await read_past_cache(file, view, _at_once)
    assert found == hashlib.md5(DATA[: 5 << 20], usedforsecurity=False).hexdigest()


async def test_a_disk_that_fails_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    file = Bypass(path)
    monkeypatch.setattr(os, "preadv", fail)
    assert not file.is_cached()
    with pytest.raises(OSError, match="Input/output"):
        await read_past_cache(file, _room(len(DATA)), _at_once)


def test_what_is_asked_for_again_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_io, "_REMEMBERED", 2)
    seen = ReadBefore()
    assert [seen.add(one) for one in "abacb"] == [False, False, True, False, False]


async def test_a_volume_brings_into_the_cache_what_is_read_again(tmp_path: Path) -> None:
    volume = DirectoryVolume(tmp_path)
    await volume.put(HASH, DATA)
    file = tmp_path / HASH[:3] / HASH
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    for _ in range(2):
        assert await volume.get(HASH, _room(len(DATA))) == DATA
    assert Bypass(file).is_cached()
    assert len(DATA) >= LARGE


async def test_a_damaged_block_is_found_so_too(tmp_path: Path) -> None:
    volume = DirectoryVolume(tmp_path)
    await volume.put(HASH, DATA)
    with (tmp_path / HASH[:3] / HASH).open("r+b") as file:
        file.seek(5 << 20)
        file.write(b"X")
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with pytest.raises(Corrupt, match=f"{HASH}.*does not match the hash"):
        await volume.get(HASH, _room(len(DATA)))

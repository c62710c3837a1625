from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from lading.blobs.block_files import LARGE, Bypass, FileDraft, ReadBefore, read_past_cache
from lading.blobs.directory import DirectoryVolume
from lading.core.errors import Corrupt

DATA = bytes(range(256)) * ((9 << 20) // 256) + b"the end"
HASH = hashlib.md5(DATA, usedforsecurity=False).hexdigest()
_Answer = TypeVar("_Answer")


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


def test_what_is_asked_for_again_is_known() -> None:
    seen = ReadBefore(limit=2)
    assert [seen.add(one) for one in "abacb"] == [False, False, True, False, False]


async def test_a_volume_brings_into_the_cache_what_is_read_again(disk_path: Path) -> None:
    volume = DirectoryVolume(disk_path)
    await volume.put(HASH, DATA)
    file = disk_path / HASH[:3] / HASH
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


class Disk:
    def __init__(self, root: Path) -> None:
        self.root = root

    async def run(self, work: Callable[..., _Answer], *arguments: object) -> _Answer:
        return work(*arguments)

    def put_in_place(self, aside: Path, hash: str) -> None:
        aside.rename(self.root / hash)


async def test_what_was_written_is_given_its_place(tmp_path: Path) -> None:
    draft = FileDraft(Disk(tmp_path), tmp_path)
    for piece in (b"f", b"oo"):
        await draft.write(memoryview(piece))
    await draft.commit("block")
    await draft.discard()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"block": b"foo"}


async def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int, __: memoryview) -> int:
        raise OSError(28, "No space left on device")

    draft = FileDraft(Disk(tmp_path), tmp_path)
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space"):
        await draft.write(memoryview(b"foo"))
    await draft.discard()
    await draft.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sizes", [(4 << 20,), (1 << 20, 3 << 20, 5000), (4097, 1 << 20), (10, 8192)]
)
async def test_a_large_block_is_the_same_whatever_pieces_it_came_in(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    with mmap.mmap(-1, sum(sizes)) as memory:
        data = os.urandom(sum(sizes))
        memory[:] = data
        draft = FileDraft(Disk(tmp_path), tmp_path, size=8 << 20)
        with memoryview(memory) as view:
            done = 0
            for size in sizes:
                await draft.write(view[done : done + size])
                done += size
        await draft.commit("block")
    assert (tmp_path / "block").read_bytes() == data


async def test_a_disk_that_cannot_be_written_past_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def refuse(descriptor: int, command: int, *more: int) -> int:
        calls.append(command)
        if command == fcntl.F_SETFL:
            raise OSError(22, "Invalid argument")
        return whole(descriptor, command, *more)

    whole = fcntl.fcntl
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    draft = FileDraft(Disk(tmp_path), tmp_path, size=8 << 20)
    await draft.write(memoryview(b"x" * 10_000))
    await draft.commit("block")
    assert (tmp_path / "block").read_bytes() == b"x" * 10_000
    assert calls == [fcntl.F_GETFL, fcntl.F_SETFL]


async def test_another_fault_of_the_disk_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int, __: memoryview) -> int:
        raise OSError(5, "Input/output error")

    draft = FileDraft(Disk(tmp_path), tmp_path, size=8 << 20)
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="Input/output"):
        await draft.write(memoryview(bytes(8192)))
    await draft.discard()
    assert list(tmp_path.iterdir()) == []

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from lading.blobs.partial_block import FileDraft

_Answer = TypeVar("_Answer")


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

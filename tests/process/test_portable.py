"""Calls that only some systems have, with and without them."""

from __future__ import annotations

import os
import stat
import sys
import types
from pathlib import Path

import pytest

from lading.process import portable
from lading.process.portable import FileAdvice


@pytest.mark.parametrize("is_there", [True, False])
def test_a_nameless_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    if not is_there:
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    descriptor = portable.open_nameless("block")
    try:
        os.write(descriptor, b"text")
        assert os.pread(descriptor, 9, 0) == b"text"
        assert os.fstat(descriptor).st_nlink == 0
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("is_there", [True, False])
def test_advice_and_reads_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if not is_there:
        monkeypatch.delattr(os, "posix_fadvise")
        monkeypatch.delattr(os, "RWF_NOWAIT")
    (tmp_path / "f").write_bytes(b"12345")
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    try:
        portable.advise(descriptor, FileAdvice.SEQUENTIAL)
        # A file system may not tell what is in memory.
        assert portable.read_cached(descriptor, bytearray(3), 1) in ((3, 0) if is_there else (0,))
    finally:
        os.close(descriptor)


def test_the_mode_of_an_entry_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        portable.set_mode("d", 0o700, folder=folder)
    finally:
        os.close(folder)
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700


@pytest.mark.parametrize("is_there", [True, False])
def test_reads_and_writes_at_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if not is_there:
        for name in ("pread", "preadv", "pwrite"):
            monkeypatch.delattr(os, name)
    descriptor = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    try:
        assert portable.write_at(descriptor, memoryview(b"12345"), 2) == 5
        assert portable.read_at(descriptor, 3, 3) == b"234"
        buffer = bytearray(4)
        assert portable.read_into(descriptor, memoryview(buffer), 5) == 2
        assert buffer == b"45\0\0"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_lock_is_held_until_the_file_is_closed(tmp_path: Path, is_shared: bool) -> None:
    first, second, third = (os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT) for _ in range(3))
    portable.lock_file(first, is_shared=is_shared)
    with pytest.raises(BlockingIOError):
        portable.lock_file(second)
    os.close(first)
    portable.lock_file(third)
    os.close(second)
    os.close(third)


def test_a_lock_of_windows_leaves_the_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[tuple[int, int, int]] = []
    console = types.ModuleType("msvcrt")
    vars(console).update(LK_NBLCK=2, locking=lambda *arguments: locked.append(arguments))
    monkeypatch.setitem(sys.modules, "msvcrt", console)
    monkeypatch.setattr(portable, "fcntl", None)
    with (tmp_path / "f").open("w+b", buffering=0) as file:
        file.write(b"123")
        portable.lock_file(file.fileno())
        file.write(b"4")
        assert locked == [(file.fileno(), 2, 1)]
        assert portable.waiting_bytes(file.fileno()) == 0
    assert (tmp_path / "f").read_bytes() == b"1234"


def test_bytes_that_wait_in_a_pipe() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"123")
    assert portable.waiting_bytes(reader) == 3
    os.close(reader)
    os.close(writer)


def test_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = os.openpty()
    assert not portable.is_closed_terminal(near)
    os.close(far)
    assert portable.is_closed_terminal(near)
    monkeypatch.setattr(portable, "termios", None)
    assert not portable.is_closed_terminal(near)
    os.close(near)


def test_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    assert portable.is_mine(0)
    assert not portable.is_mine(os.geteuid() + 1)
    monkeypatch.delattr(os, "geteuid")
    assert portable.is_mine(12345)

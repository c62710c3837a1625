"""Calls that only some systems have, with and without them."""

from __future__ import annotations

import os
import stat
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

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.client.folders import SMALL, Folder


def test_small_files_are_read_one_after_another(tmp_path: Path) -> None:
    for name, data in {"a": b"one", "b": b"", "c": b"three"}.items():
        (tmp_path / name).write_bytes(data)
    buffer, folder = bytearray(b"before"), Folder(str(tmp_path), ["c", "a", "b"])
    assert folder.read(buffer, 1 << 20) == [5, 3, 0]
    assert buffer == b"beforethreeone"
    assert folder.position == 3
    assert folder.read(buffer, 1 << 20) == []


def test_it_stops_when_there_is_no_room_for_another_and_goes_on_there(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode() * SMALL)
    buffer, folder = bytearray(), Folder(str(tmp_path), ["a", "b", "c"])
    assert folder.read(buffer, 2 * SMALL) == [SMALL, SMALL]
    buffer.clear()
    assert folder.read(buffer, 1) == [SMALL]
    assert buffer == b"c" * SMALL


def test_it_stops_before_a_large_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2" * (SMALL + 1))
    buffer, folder = bytearray(), Folder(str(tmp_path), ["a", "b"])
    assert folder.read(buffer, 1 << 20) == [1]
    assert folder.read(buffer, 1 << 20) == []
    assert buffer == b"1"
    assert folder.position == 1


@pytest.mark.parametrize("kind", ["link", "gone", "directory"])
def test_what_is_no_file_any_more_is_named(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_bytes(b"1")
    if kind == "link":
        (tmp_path / "b").symlink_to("a")
    elif kind == "directory":
        (tmp_path / "b").mkdir()
    with pytest.raises(OSError) as caught:
        Folder(str(tmp_path), ["a", "b"]).read(bytearray(), 1 << 20)
    assert caught.value.filename == "b"


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    assert Folder(str(tmp_path), ["a"]).read(bytearray(), 1 << 20) == [0]


def _open() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir()}


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = _open()
    with pytest.raises(IsADirectoryError):
        Folder(str(tmp_path), ["a"]).read(bytearray(), 1 << 20)
    with pytest.raises(FileNotFoundError):
        Folder(str(tmp_path / "none"), ["a"]).read(bytearray(), 1 << 20)
    assert _open() == before

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.client.files.local_files import SMALL, SmallFiles
from lading.process.cancellation import Stopped


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    """The descriptor of `tmp_path`."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_small_files_are_read_one_after_another(tmp_path: Path, directory: int) -> None:
    for name, data in {"a": b"one", "b": b"", "c": b"three"}.items():
        (tmp_path / name).write_bytes(data)
    buffer, folder = bytearray(b"before"), SmallFiles(["c", "a", "b"])
    assert folder.read(directory, buffer, 1 << 20) == [5, 3, 0]
    assert buffer == b"beforethreeone"
    assert folder.position == 3
    assert folder.read(directory, buffer, 1 << 20) == []


def test_it_stops_when_there_is_no_room_for_another_and_goes_on_there(
    tmp_path: Path, directory: int
) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode() * SMALL)
    buffer, folder = bytearray(), SmallFiles(["a", "b", "c"])
    assert folder.read(directory, buffer, 2 * SMALL) == [SMALL, SMALL]
    buffer.clear()
    assert folder.read(directory, buffer, 1) == [SMALL]
    assert buffer == b"c" * SMALL


def test_it_stops_before_a_large_file(tmp_path: Path, directory: int) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2" * (SMALL + 1))
    buffer, folder = bytearray(), SmallFiles(["a", "b"])
    assert folder.read(directory, buffer, 1 << 20) == [1]
    assert folder.read(directory, buffer, 1 << 20) == []
    assert buffer == b"1"
    assert folder.position == 1


@pytest.mark.parametrize("kind", ["link", "gone", "directory"])
def test_what_is_no_file_any_more_is_named(tmp_path: Path, directory: int, kind: str) -> None:
    (tmp_path / "a").write_bytes(b"1")
    if kind == "link":
        (tmp_path / "b").symlink_to("a")
    elif kind == "directory":
        (tmp_path / "b").mkdir()
    with pytest.raises(OSError) as caught:
        SmallFiles(["a", "b"]).read(directory, bytearray(), 1 << 20)
    assert caught.value.filename == "b"


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path, directory: int) -> None:
    os.mkfifo(tmp_path / "a")
    assert SmallFiles(["a"]).read(directory, bytearray(), 1 << 20) == [0]


def _open() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir()}


def test_no_descriptor_stays_open(tmp_path: Path, directory: int) -> None:
    (tmp_path / "a").mkdir()
    before = _open()
    with pytest.raises(IsADirectoryError):
        SmallFiles(["a"]).read(directory, bytearray(), 1 << 20)
    assert _open() == before


def test_it_can_be_stopped(tmp_path: Path, directory: int) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(Stopped):
        SmallFiles(["a"]).read(directory, bytearray(), 1, stop=lambda: True)


def test_a_directory_that_is_swapped_for_a_link_stays_what_it_was(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    buffer, descriptor = bytearray(), os.open(tmp_path / "mine", os.O_RDONLY)
    (tmp_path / "mine").rename(tmp_path / "away")
    (tmp_path / "mine").symlink_to(tmp_path / "theirs")
    assert SmallFiles(["a"]).read(descriptor, buffer, 100) == [4]
    os.close(descriptor)
    assert buffer == b"mine"

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lading.client.caches.disk_space import check_room
from lading.core.containers.disk_space import Amount, DiskWriter
from lading.core.errors import ExecutionError, Failure
from lading.process.cancellation import Stopped
from lading.supervisor.limits import disk_usage
from lading.supervisor.limits.disk_usage import MAX_DEPTH, Neighbours, measure

KIB = 1 << 10


def make(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def total(uses: dict[int, Amount]) -> Amount:
    return sum(uses.values(), Amount())


def test_files_are_measured_once_and_links_not_followed(tmp_path: Path) -> None:
    file = make(tmp_path / "a" / "d" / "file", 64 * KIB)
    make(tmp_path / "else", 640 * KIB)
    (tmp_path / "a" / "hard").hardlink_to(file)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "hard").hardlink_to(file)
    (tmp_path / "a" / "soft").symlink_to(tmp_path)
    uses = measure([tmp_path / "a", tmp_path / "b", tmp_path / "none"], most=Amount())
    assert list(uses) == [tmp_path.stat().st_dev]
    found = total(uses)
    assert 64 * KIB <= found.size < 128 * KIB
    assert found.files == 3


def test_a_hole_takes_nothing(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert total(measure([tmp_path], most=Amount())).size < 64 * KIB


def test_it_ends_with_more_than_is_allowed(tmp_path: Path) -> None:
    for number in range(50):
        make(tmp_path / str(number), KIB)
    assert total(measure([tmp_path], most=Amount(0, 10))).files == 11
    assert total(measure([tmp_path], most=Amount(8 * KIB, 0))).files < 50


def test_directories_that_are_too_deep(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 2):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with pytest.raises(OSError, match="deep") as caught:
        measure([tmp_path], most=Amount())
    assert caught.value.errno == errno.ELOOP
    with pytest.raises(Stopped):
        measure([tmp_path], most=Amount(), stop=lambda: True)


def test_a_single_file_is_measured(tmp_path: Path) -> None:
    found = total(measure([make(tmp_path / "hosts", 64 * KIB)], most=Amount()))
    assert (found.files, found.size >= 64 * KIB) == (1, True)


def test_neighbours_tell_each_other(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    now = (tmp_path / "a").stat().st_mtime
    one, two = Neighbours(tmp_path / "a", lambda: now), Neighbours(tmp_path / "b", lambda: now)
    (tmp_path / "b" / "journal").touch()
    assert one.are_unknown()
    two.tell({})
    assert one.are_unknown()
    assert not two.are_unknown()
    writer = DiskWriter("b", Amount(1 << 50, 2), Amount(3, 4))
    two.tell({7: DiskWriter("b", Amount(9), Amount())})
    two.tell({7: writer})
    (tmp_path / "c" / disk_usage.USAGE_NAME).write_text("rubbish")
    assert one.others(7) == [writer]
    assert not one.are_unknown()
    assert one.others(8) == [DiskWriter("b", Amount(), Amount())]
    assert two.others(7) == []
    assert Neighbours(tmp_path / "a", lambda: now + 100).others(7) == []
    Neighbours(tmp_path / "none", lambda: now).tell({})


def test_room_is_checked_before_something_is_begun(tmp_path: Path) -> None:
    check_room(tmp_path, Amount(0, 0), need=1, subject="it")
    with pytest.raises(
        ExecutionError, match=r"^no room for the 1048576.0 GiB of it: the disk of"
    ) as caught:
        check_room(tmp_path, Amount(0, 0), need=1 << 50, subject="it")
    assert caught.value.failure is Failure.DISK

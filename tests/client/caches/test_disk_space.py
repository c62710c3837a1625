from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.client.caches.disk_space import is_full, is_short, lacks_room, read_disk
from lading.core.containers.disk_space import AUTOMATIC, Amount


def test_a_disk_is_read(tmp_path: Path) -> None:
    found, disk = read_disk(tmp_path), os.statvfs(tmp_path)
    assert found.total == Amount(disk.f_blocks * disk.f_frsize, disk.f_files)
    assert 0 < found.free.size <= found.total.size


def test_room_beside_the_reserve(tmp_path: Path) -> None:
    free = read_disk(tmp_path).free
    assert lacks_room(tmp_path, Amount(AUTOMATIC, AUTOMATIC), need=1) == ""
    assert "is almost full" in lacks_room(tmp_path, Amount(free.size * 2, 0))
    assert "is almost full" in lacks_room(tmp_path, Amount(0, 0), need=free.size * 2)
    assert "is almost full" in lacks_room(tmp_path, Amount(0, free.files * 2)) or not free.files


def test_a_disk_is_short_before_the_reserve_is_touched(tmp_path: Path) -> None:
    free = read_disk(tmp_path).free.size
    assert is_short(tmp_path, Amount(0, 0)) == ""
    assert "Containers.DiskReserve" in is_short(tmp_path, Amount(free * 3 // 4, 0))
    assert lacks_room(tmp_path, Amount(free * 3 // 4, 0)) == ""


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        lacks_room(tmp_path / "none", Amount())


def test_a_full_disk(tmp_path: Path) -> None:
    # procfs has no blocks.
    assert [is_full(place) for place in (tmp_path, tmp_path / "none", "/proc")] == [
        False,
        False,
        True,
    ]

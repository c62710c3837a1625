from __future__ import annotations

import fcntl
import struct
from pathlib import Path

import pytest

from lading.client.caches.disk_space import spread_directories


class FileSystem:
    """What answers the kernel's calls for the flags of a directory, which has the flags `flags`."""

    def __init__(self, flags: int) -> None:
        self.flags = flags
        self.calls = 0

    def ioctl(self, descriptor: int, request: int, argument: bytes) -> bytes:
        """FS_IOC_GETFLAGS and FS_IOC_SETFLAGS."""
        assert descriptor >= 0
        self.calls += 1
        if request == 0x40086602:
            self.flags = struct.unpack_from("i", argument)[0]
        return struct.pack("i4x", self.flags)


@pytest.mark.parametrize(("before", "calls"), [(0x80000, 2), (0xA0000, 1)])
def test_the_flag_is_set_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, calls: int
) -> None:
    found = FileSystem(before)
    monkeypatch.setattr(fcntl, "ioctl", found.ioctl)
    spread_directories(tmp_path)
    assert (found.flags, found.calls) == (0xA0000, calls)


def test_where_there_is_no_such_flag_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    spread_directories(tmp_path)


def test_a_real_directory_of_whatever_kind(tmp_path: Path) -> None:
    spread_directories(tmp_path)
    (tmp_path / "below").mkdir()
    with pytest.raises(FileNotFoundError):
        spread_directories(tmp_path / "none")

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from lading.client.caches import entry_files


@pytest.fixture
def part(tmp_path: Path) -> Path:
    path = tmp_path / "part"
    path.touch()
    return path


def test_a_part_stays_while_its_process_lives(part: Path) -> None:
    descriptor = os.open(part, os.O_RDWR)
    assert entry_files.try_lock(descriptor, fcntl.LOCK_EX)
    assert not entry_files.remove_part(part)
    os.close(descriptor)
    assert entry_files.remove_part(part)
    assert not part.exists()
    assert entry_files.remove_part(part)


def test_another_file_at_the_path_is_not_the_open_one(part: Path) -> None:
    descriptor = os.open(part, os.O_RDWR)
    assert entry_files.is_same(part, descriptor)
    part.unlink()
    assert not entry_files.is_same(part, descriptor)
    part.touch()
    assert not entry_files.is_same(part, descriptor)
    os.close(descriptor)


def test_the_total_of_a_ledger_is_read_as_it_was_written(part: Path) -> None:
    descriptor = os.open(part, os.O_RDWR)
    assert entry_files.read_total(descriptor) is None
    entry_files.write_total(descriptor, 7 << 40)
    entry_files.write_total(descriptor, 5)
    assert entry_files.read_total(descriptor) == 5
    os.close(descriptor)


def test_a_quota_without_room_is_a_full_disk() -> None:
    assert entry_files.is_full(OSError(errno.EDQUOT, ""))
    assert not entry_files.is_full(OSError(errno.EIO, ""))

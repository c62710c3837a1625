"""Logs within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.hpc.layout import trim_log

MIB = 1 << 20


def test_the_oldest_part_is_given_back_and_positions_stay(tmp_path: Path) -> None:
    path = tmp_path / "stdout.txt"
    path.write_bytes(b"x" * (3 * MIB) + b"end")
    used = path.stat().st_blocks
    assert trim_log(path, limit=MIB) == 2 * MIB
    assert path.stat().st_size == 3 * MIB + 3
    assert path.stat().st_blocks < used
    assert path.read_bytes()[2 * MIB :] == b"x" * MIB + b"end"


def test_a_short_log_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "stdout.txt"
    assert trim_log(path) == 0
    path.write_bytes(b"abc")
    assert trim_log(path, limit=1) == 0


def test_what_cannot_be_trimmed_is_said() -> None:
    with pytest.raises(OSError):
        trim_log(Path("/proc/self/mem"), limit=-2 * MIB)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor.machine import device_type


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/proc/self").mkdir(parents=True)
    return tmp_path / "root"


def number(path: Path) -> str:
    device = path.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("tmpfs", "ram"), ("nfs4", "network"), ("fuse.sshfs", "network"), ("ext4", "")],
)
def test_by_the_file_system(root: Path, kind: str, expected: str) -> None:
    table = (
        f"1 0 0:1 / / rw - proc proc rw\n2 1 {number(root)} / /x rw shared:1 - {kind} /dev/x rw\n"
    )
    (root / "proc/self/mountinfo").write_text(table)
    assert device_type(root, root=root) == expected


@pytest.mark.parametrize(("turns", "expected"), [("1", "disk"), ("0", "ssd")])
def test_by_the_disk_of_a_partition(root: Path, turns: str, expected: str) -> None:
    disk = root / "sys/devices/sda"
    (disk / "sda1").mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "queue/rotational").write_text(f"{turns}\n")
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block" / number(root)).symlink_to(disk / "sda1")
    assert device_type(root, root=root) == expected


def test_of_this_machine(tmp_path: Path) -> None:
    assert device_type(tmp_path) in {"ram", "ssd", "disk", "network", ""}

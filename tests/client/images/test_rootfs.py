"""Root file systems as images."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from lading.client.images.sources import is_rootfs, read_rootfs_directory, read_rootfs_tar
from lading.core.errors import Invalid
from tests.client.images.images_on_disk import LAYERS, digest


def test_a_tar_is_kept_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "root.tar"
    path.write_bytes(LAYERS[0])
    parts = read_rootfs_tar(path, tmp_path, architecture="amd64", source="root.tar")
    assert parts.layers[0].diff_id == digest(LAYERS[0])
    assert b"lading image add root.tar" in parts.config


def test_a_directory_keeps_modes_times_and_links(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "sh").write_text("#!")
    (root / "bin" / "sh").chmod(0o750)
    os.utime(root / "bin" / "sh", (1, 1234))
    (root / "sbin").symlink_to("bin")
    os.mkfifo(root / "pipe")
    os.mknod(root / "socket", 0o140644)
    parts = read_rootfs_directory(root, tmp_path, architecture="amd64")
    with tarfile.open(parts.layers[0].path) as tar:
        found = {member.name: member for member in tar}
    assert sorted(found) == ["bin", "bin/sh", "pipe", "sbin"]
    assert (found["bin/sh"].mode, found["bin/sh"].mtime, found["sbin"].linkname) == (
        0o750,
        1234,
        "bin",
    )


def test_a_directory_that_vanishes_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="gone: cannot be put into the image: No such file"):
        read_rootfs_directory(tmp_path / "gone", tmp_path, architecture="amd64")


def test_what_looks_like_a_root() -> None:
    assert is_rootfs({"usr", "opt"})
    assert not is_rootfs({"a", "b"})

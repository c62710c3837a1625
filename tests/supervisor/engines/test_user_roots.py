"""Roots without an overlay of the kernel."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines.user_roots import copy_layer, mount_fuse_overlay


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    place = tmp_path / "layer"
    (place / "d").mkdir(parents=True)
    (place / "d" / "-f").write_bytes(b"x" * 5000)
    (place / "link").symlink_to("/etc/passwd")
    (place / "d" / "-f").chmod(0o741)
    os.utime(place / "d" / "-f", (7, 7))
    place.chmod(0o750)
    return place


def test_a_copy_has_modes_times_and_links(layer: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    copy_layer(str(layer), str(target))
    status = (target / "d" / "-f").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime, status.st_size) == (0o741, 7, 5000)
    assert (target / "link").readlink() == Path("/etc/passwd")
    assert stat.S_IMODE(target.stat().st_mode) == 0o750


def test_a_large_image_is_not_copied(layer: Path, tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="apt install fuse-overlayfs") as caught:
        copy_layer(str(layer), str(tmp_path / "none"), largest=4096)
    assert caught.value.failure is Failure.NODE


def test_a_copy_that_fails_is_told(layer: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot be copied: cp: "):
        copy_layer(str(layer), str(tmp_path / "file"))


def test_a_mount_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "fuse-overlayfs"
    program.write_text("#!/bin/sh\necho no fuse >&2; exit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(OSError, match="fuse-overlayfs: no fuse"):
        mount_fuse_overlay("/t", lower=["/l"], upper="/u", work="/w")
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\n')
    mount_fuse_overlay("/t", lower=["/l"], upper="/u", work="/w")
    assert (tmp_path / "said").read_text() == "-o lowerdir=/l,upperdir=/u,workdir=/w /t\n"

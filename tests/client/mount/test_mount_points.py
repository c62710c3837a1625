from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.client.mount import mount_points
from lading.core.errors import Conflict, Invalid, Unavailable


def test_a_directory_is_fit(tmp_path: Path) -> None:
    mount_points.check_point(tmp_path)
    assert mount_points.kind_of(tmp_path) == ""
    assert mount_points.kind_of(Path("/proc")) == "proc"


def test_what_is_no_directory_is_not(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="make it: mkdir -p"):
        mount_points.check_point(tmp_path / "absent")
    with pytest.raises(Invalid, match="nothing is mounted there"):
        mount_points.unmount(tmp_path)


def test_a_dead_mount_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "stat", _raise(OSError(errno.ENOTCONN, "not connected")))
    with pytest.raises(
        Conflict, match="whose process is gone; take it away: lading mount --unmount"
    ):
        mount_points.check_point(tmp_path)


def test_a_live_mount_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_points, "kind_of", lambda directory: "fuse.lading")
    with pytest.raises(Conflict, match="something is mounted there"):
        mount_points.check_point(tmp_path)


@pytest.mark.parametrize(
    ("there", "usable", "user", "program", "message"),
    [
        (False, True, 0, None, "modprobe fuse"),
        (True, False, 1000, None, "chmod 666"),
        (True, True, 1000, None, "apt install fuse3"),
        (True, True, 1000, "/usr/bin/fusermount3", ""),
        (True, True, 0, None, ""),
    ],
)
def test_what_this_user_lacks(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    there: bool,
    usable: bool,
    user: int,
    program: str | None,
    message: str,
) -> None:
    device = tmp_path / "fuse"
    if there:
        device.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: usable)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", lambda name: program)
    if not message:
        mount_points.check_fuse(device)
        return
    with pytest.raises(Unavailable, match=message):
        mount_points.check_fuse(device)


@pytest.mark.parametrize(
    ("program", "code", "message"), [(None, 0, "apt install"), ("x", 1, "cannot be unmounted: no")]
)
def test_who_is_not_root_asks_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, code: int, message: str
) -> None:
    monkeypatch.setattr(mount_points, "kind_of", lambda directory: "fuse")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: program)
    done = subprocess.CompletedProcess([], code, "", "no\n")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **more: done)
    with pytest.raises(Unavailable, match=message):
        mount_points.unmount(tmp_path)


def test_root_says_why_it_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_points, "kind_of", lambda directory: "fuse")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Unavailable, match="cannot be unmounted"):
        mount_points.unmount(tmp_path)


def _raise(error: BaseException) -> Callable[..., None]:
    def call(*arguments: object, **more: object) -> None:
        raise error

    return call


def test_the_kernel_is_told_how_far_to_read_ahead(tmp_path: Path) -> None:
    device = mount_points.device_of(Path("/proc"))
    assert device.partition(":")[0].isdigit()
    assert not mount_points.read_ahead(Path("/proc"), 1024, backing=tmp_path)
    (tmp_path / device).mkdir()
    assert mount_points.read_ahead(Path("/proc"), 1024, backing=tmp_path)
    assert (tmp_path / device / "read_ahead_kb").read_text() == "1024"

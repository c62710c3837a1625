"""Where things are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.hpc.layout import OPEN, PRIVATE, DaemonLayout, append, make_folder, read_text, write


def test_code_is_where_images_and_templates_put_it(tmp_path: Path) -> None:
    layout = DaemonLayout(tmp_path, "/home/me")
    assert layout.code("") == tmp_path / "code"
    assert layout.code("ring") == tmp_path / "hpcaas/code/ring"
    assert layout.code("/opt/ring") == tmp_path / "opt/ring"
    assert (layout.bashrc, layout.outside(layout.ssh)) == (
        tmp_path / "home/me/.bashrc",
        "/home/me/.ssh",
    )


def test_the_daemon_s_own_is_nobody_else_s(tmp_path: Path) -> None:
    layout = DaemonLayout(tmp_path, "/root")
    layout.make()
    layout.make()
    assert layout.own.stat().st_mode & 0o777 == 0o700
    assert (layout.base / "updates").stat().st_mode & 0o777 == 0o777


def test_others_reach_what_is_for_them_whatever_the_umask(tmp_path: Path) -> None:
    layout = DaemonLayout(tmp_path, "/root")
    # Left by a daemon that closed them.
    (layout.base / "files").mkdir(parents=True, mode=0o700)
    before = os.umask(0o077)
    try:
        layout.make()
    finally:
        os.umask(before)
    modes = {one.name: one.stat().st_mode & 0o7777 for one in (layout.base, *layout.base.iterdir())}
    assert modes == {
        "hpcaas": 0o755, "files": 0o755, "runtime": 0o755, "parameters": 0o755, "code": 0o755,
        "results": 0o1777, "updates": 0o777, "daemon": 0o700,
    }  # fmt: skip


def test_a_directory_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume").chmod(0o770)
    before = os.umask(0o077)
    try:
        make_folder(tmp_path / "volume" / "deep" / "own", mode=0o700)
        make_folder(tmp_path / "volume")
    finally:
        os.umask(before)
    found = [(tmp_path / "volume" / one).stat().st_mode & 0o777 for one in ("", "deep", "deep/own")]
    assert found == [0o770, 0o755, 0o700]


def test_files_are_where_the_template_puts_them_too(tmp_path: Path) -> None:
    layout = DaemonLayout(tmp_path, "/root")
    layout.make()
    (layout.base / "files" / "mesh").write_text("m")
    assert (layout.base / "parameters" / "files" / "mesh").read_text() == "m"


def test_modes_are_what_was_asked_for_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path / "open", "x", mode=OPEN)
        append(tmp_path / "more", "a\n", mode=OPEN)
        append(tmp_path / "more", "b\n", mode=OPEN)
        write(tmp_path / "own", b"x", mode=PRIVATE)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("open", "more", "own")] == [
        0o666,
        0o666,
        0o600,
    ]
    assert (read_text(tmp_path / "more"), read_text(tmp_path / "nothing")) == ("a\nb\n", "")


def test_what_cannot_be_put_there_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write(tmp_path / "folder", "x", mode=OPEN)
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]

"""One suite for both kinds of open directories."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.client.files.folders import DescriptorFolder, Folder, PathFolder, open_folder
from lading.client.files.local_files import SafeWriter
from lading.core.errors import Conflict
from lading.process import portable


def _by_descriptor(path: Path) -> Folder:
    return DescriptorFolder(os.open(path, os.O_RDONLY | os.O_DIRECTORY))


both = pytest.mark.parametrize("open_root", [_by_descriptor, PathFolder])
OpenRoot = Callable[[Path], Folder]


@both
def test_entries(tmp_path: Path, open_root: OpenRoot) -> None:
    top = open_root(tmp_path)
    below = top.enter("d").copy()
    descriptor = below.create("new")
    os.write(descriptor, b"x")
    os.close(descriptor)
    assert (below.has("new"), below.has("old"), top.has("new")) == (True, False, False)
    (tmp_path / "d/old").write_bytes(b"y")
    below.rename("new", "old")
    assert (tmp_path / "d/old").read_bytes() == b"x"
    with pytest.raises(FileExistsError):
        below.create("old")
    below.remove("old")
    assert list((tmp_path / "d").iterdir()) == []
    below.close()
    top.close()


@both
def test_links_and_files_are_no_directories(tmp_path: Path, open_root: OpenRoot) -> None:
    (tmp_path / "outside").mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "file").touch()
    (root / "dangling").symlink_to("nowhere")
    top = open_root(root)
    for name in ("link", "file"):
        with pytest.raises(OSError, match=name):
            top.enter(name)
    assert top.has("dangling")
    top.close()


@both
def test_a_writer_stays_below_its_root(tmp_path: Path, open_root: OpenRoot) -> None:
    writer = SafeWriter(tmp_path / "root", open_root=open_root)
    (tmp_path / "root/link").symlink_to(tmp_path)
    writer.write({"d/e": [b"1", b"2"]})
    with pytest.raises(Conflict, match="is in the way"):
        writer.write({"link/f": [b"x"]})
    writer.close()
    assert (tmp_path / "root/d/e").read_bytes() == b"12"
    assert not (tmp_path / "f").exists()


def test_the_kind_is_that_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_folder(tmp_path)
    assert isinstance(folder, DescriptorFolder)
    folder.close()
    monkeypatch.setattr(portable, "HAS_FOLDER_DESCRIPTORS", False)
    assert isinstance(open_folder(tmp_path), PathFolder)
    with pytest.raises(NotADirectoryError):
        open_folder(tmp_path / "none")

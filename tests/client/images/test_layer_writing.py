"""Layers from files: sorted, numeric owners, hard links kept."""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path

import pytest

from lading.client.images.layer_writing import LayerEntry, write_layer
from lading.core.errors import Invalid

_FILE, _FOLDER, _LINK = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777


def _members(path: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return tar.getmembers()


def test_entries_are_sorted_and_anonymous(tmp_path: Path) -> None:
    entries = [
        LayerEntry(path="/b", mode=_FILE, content=b"text"),
        LayerEntry(path="/a/l", mode=_LINK, target="../b"),
        LayerEntry(path="/a", mode=_FOLDER, owner=(5, 6), modified=7),
    ]
    layer = write_layer(entries, tmp_path / "layer.tar")
    folder, link, file = _members(layer.path)
    assert (folder.name, folder.uid, folder.gid, folder.mtime, folder.uname) == ("a", 5, 6, 7, "")
    assert (link.name, link.linkname, file.size) == ("a/l", "../b", 4)
    assert write_layer(reversed(entries), tmp_path / "again.tar").diff_id == layer.diff_id


def test_a_file_with_two_names_is_stored_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 2000)
    os.link(tmp_path / "one", tmp_path / "two")
    entries = [
        LayerEntry(path=f"/{name}", mode=_FILE, source=tmp_path / name) for name in ("one", "two")
    ]
    one, two = _members(write_layer(entries, tmp_path / "layer.tar").path)
    assert (one.size, two.islnk(), two.linkname) == (2000, True, "one")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    entry = LayerEntry(path="/x", mode=_FILE, source=tmp_path / "absent")
    with pytest.raises(Invalid, match=r"absent: cannot be put into the image: No such file"):
        write_layer([entry], tmp_path / "layer.tar")

"""Downloads to file systems that take two names for one, or that refuse names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lading.client.files.local_files import SafeWriter
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Conflict, Invalid
from lading.process import portable
from tests.client.systems.merging import MergingFolder, decompose, fold_case

_CASE = FileTree({"d": FileTree({"READ.me": File(), "read.me": File()})})
_FORM = FileTree({"caf\xe9": File(), "cafe\u0301": File()})


def _writer(folder: Path, fold: Callable[[str], str]) -> SafeWriter:
    return SafeWriter(folder, open_root=partial(MergingFolder, fold=fold))


@pytest.mark.parametrize(
    ("tree", "fold", "difference"),
    [(_CASE, fold_case, "case"), (_FORM, decompose, "the form of a letter")],
)
def test_two_names_that_would_be_one_are_refused(
    tree: FileTree, fold: Callable[[str], str], difference: str, tmp_path: Path
) -> None:
    writer = _writer(tmp_path, fold)
    with pytest.raises(Conflict, match=f"differ by {difference} alone, which the file system of"):
        writer.check_names(tree)
    writer.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("tree", "fold"), [(_CASE, decompose), (_FORM, fold_case)])
def test_another_difference_is_none_of_this_file_system(
    tree: FileTree, fold: Callable[[str], str], tmp_path: Path
) -> None:
    writer = _writer(tmp_path, fold)
    writer.check_names(tree)
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_linux_tells_all_names_apart(tmp_path: Path) -> None:
    writer = SafeWriter(tmp_path)
    for tree in (_CASE, _FORM):
        writer.check_names(tree)
    writer.close()


def test_a_directory_that_cannot_be_tried(tmp_path: Path) -> None:
    writer = _writer(tmp_path / "gone", fold_case)
    (tmp_path / "gone").rmdir()
    with pytest.raises(Exception, match="cannot be written"):
        writer.check_names(_CASE)
    writer.close()


@pytest.mark.parametrize("name", ["con.txt", "a:b", "c:\\temp", "..\\up", "end."])
def test_names_that_windows_cannot_have(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = FileTree({"d": FileTree({name: File()})})
    writer = SafeWriter(tmp_path)
    writer.check_names(tree)
    monkeypatch.setattr(portable, "IS_WINDOWS", True)
    with pytest.raises(Invalid, match="Windows has no such name"):
        writer.check_names(tree)
    writer.close()


def test_a_file_on_windows_is_closed_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portable, "IS_WINDOWS", True)
    writer = _writer(tmp_path, fold_case)
    writer.write({"d/a": [b"1"]})
    (tmp_path / "b").mkdir()
    with pytest.raises(Conflict, match="is in the way"):
        writer.write({"b": [b"2"]})
    writer.close()
    assert (tmp_path / "d/a").read_bytes() == b"1"
    assert [path.name for path in tmp_path.rglob("*.part")] == []

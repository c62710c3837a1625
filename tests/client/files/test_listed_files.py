from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from lading.client.files.listing import list_sources
from lading.core.errors import Full


def test_directories_whose_files_are_empty_are_told(tmp_path: Path) -> None:
    for name in ("a/x", "b/x", "c/x"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("" if name == "b/x" else name)
    with list_sources({"": tmp_path}) as listing:
        assert [folder.has_data for folder in listing.folders()] == [True, False, True]


def test_many_files_of_one_directory_are_listed_in_parts(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}").write_text("x" * number)
    with list_sources({"": tmp_path}, at_once=3) as listing:
        folders = list(listing.placed())
        assert [(one.first, one.begin, one.end) for _, one in folders] == [
            (0, 0, 8),
            (3, 0, 8),
            (6, 0, 8),
        ]
        assert [one.size for one in listing.found(folders[1][0], 4, 8)] == [4, 5, 6, 7]


def test_no_room_for_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    for number in range(400):
        # Too many bytes of names for memory.
        (tmp_path / f"{number:0200}").touch()
    with pytest.raises(Full, match="the list of the files cannot be written: No such file"):
        list_sources({"": tmp_path})

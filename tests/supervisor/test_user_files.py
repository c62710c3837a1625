"""Removal of files that an ordinary user cannot remove."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.core.errors import Unavailable
from lading.supervisor import rootless, user_files
from lading.supervisor.subordinate_ids import FoundIds, IdMap


def fill(directory: Path) -> None:
    (directory / "shut").mkdir(parents=True)
    (directory / "shut" / "file").touch()


def test_directories_are_removed_with_everything(tmp_path: Path) -> None:
    fill(tmp_path / "a")
    user_files.remove((tmp_path / "a", tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []


def test_without_a_namespace_what_can_be_removed_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: Path, *, ids: IdMap) -> None:
        raise OSError("no namespaces")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(rootless, "enter", refuse)
    monkeypatch.setattr(user_files, "find_ids", lambda user: FoundIds())
    fill(tmp_path / "a")
    with pytest.raises(Unavailable, match="files cannot be removed: no namespaces"):
        user_files.remove((tmp_path / "a",))
    assert not (tmp_path / "a").exists()

"""Where local paths go in a collection; storing is tested with `lading put`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.client.files.deposits import arrange, label_of
from lading.core.errors import Invalid


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_arrangement(here: Path) -> None:
    (here / "d").mkdir()
    (here / "f").write_text("")
    assert arrange([Path("d")]) == {"": Path("d")}
    assert arrange([Path("f")]) == {"f": Path("f")}
    assert arrange([Path("d"), Path("f")]) == {"d": Path("d"), "f": Path("f")}
    with pytest.raises(Invalid, match="nosuch: no such file or directory"):
        arrange([Path("nosuch")])


def test_labels(here: Path) -> None:
    assert (label_of(Path("a/b.txt")), label_of(Path())) == ("b.txt", here.name)
    assert label_of(Path("/")) == "files"
    assert label_of(Path(os.fsdecode(b"bad\xff"))) == "%raw-bad%FF"
    assert label_of(Path("a\nb")) == "a\\nb"

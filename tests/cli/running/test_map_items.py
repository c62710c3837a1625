"""Items of `lading map`: files that match, rows of a table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.cli.running.map_items import files_of, rows_of
from lading.core.errors import Invalid


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.fq", "b.fq", ".c.fq", "deep/d.fq", ".deep/e.fq"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("reads")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["*.fq"], ["a.fq", "b.fq"]),
        (["./b*", "*.fq"], ["b.fq", "a.fq"]),
        (["**/*.fq"], ["a.fq", "b.fq", "deep/d.fq"]),
        ([".*.fq"], [".c.fq"]),
        (["{}/a.fq"], ["{}/a.fq"]),
    ],
)
def test_wildcards_match_as_in_a_shell(files: Path, patterns: list[str], names: list[str]) -> None:
    filled = [pattern.replace("{}", str(files)) for pattern in patterns]
    assert [item.origin for item in files_of(filled)] == [
        name.replace("{}", str(files)) for name in names
    ]


def test_a_name_of_other_bytes_is_spelled_in_texts_alone(files: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (files / name).write_text("x")
    (item,) = files_of(["*.txt"])
    assert item.values[""] == name
    assert item.texts == {"": "%raw-caf%E9.txt", "name": "%raw-caf%E9.txt", "stem": "%raw-caf%E9"}


def test_a_row_knows_its_line(files: Path) -> None:
    (files / "t.csv").write_text("sample,n\n\nx,1\n")
    (item,) = rows_of(Path("t.csv"))
    assert (item.origin, item.values) == ("t.csv: line 3", {"": "x", "sample": "x", "n": "1"})


@pytest.mark.parametrize(
    ("content", "fault"),
    [("sample\n", "nothing to do: no row"), ("a,a\n1,2\n", "t.csv: its first line names")],
)
def test_a_table_without_items_is_refused(files: Path, content: str, fault: str) -> None:
    (files / "t.csv").write_text(content)
    with pytest.raises(Invalid, match=fault):
        rows_of(Path("t.csv"))
    with pytest.raises(Invalid, match="absent.csv: cannot be read: No such file"):
        rows_of(Path("absent.csv"))
    with pytest.raises(Invalid, match="no file matches"):
        files_of(["none*"])

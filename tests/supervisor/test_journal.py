from __future__ import annotations

from pathlib import Path

import pytest

from lading.supervisor.engines import EngineSettings
from lading.supervisor.journal import NAME, Journal, Line, Mark, Opening, read_journal, unfinished

OPENING = Opening(
    engine="stub",
    settings=EngineSettings(container_uuid="u", run_directory="/r", cache_directory="/c"),
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.open(OPENING)
    return journal


def test_what_was_written_is_read(journal: Journal, tmp_path: Path) -> None:
    journal.write("a", Mark.BEGUN)
    journal.write("a", Mark.DONE)
    assert read_journal(tmp_path) == (OPENING, [Line("a", Mark.BEGUN), Line("a", Mark.DONE)])


def test_a_line_cut_short_ends_the_journal(journal: Journal, tmp_path: Path) -> None:
    journal.write("a", Mark.BEGUN)
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"step":"b","ma')
    assert read_journal(tmp_path) == (OPENING, [Line("a", Mark.BEGUN)])


@pytest.mark.parametrize("content", [None, b"", b'{"engine":"x"'])
def test_no_journal(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / NAME).write_bytes(content)
    assert read_journal(tmp_path) is None


def test_steps_are_unfinished_until_undone() -> None:
    marks = [
        ("a", Mark.BEGUN),
        ("a", Mark.DONE),
        ("b", Mark.BEGUN),
        ("c", Mark.BEGUN),
        ("b", Mark.UNDONE),
    ]
    assert unfinished([Line(step, mark) for step, mark in marks]) == ["c", "a"]

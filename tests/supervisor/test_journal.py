from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.supervisor.engines import EngineSettings, Exit
from lading.supervisor.journal import (
    NAME,
    JournalHeader,
    JournalLine,
    RunJournal,
    StepMark,
    last_exit,
    read_journal,
    unfinished,
)

OPENING = JournalHeader(
    engine="stub",
    settings=EngineSettings(container_uuid="u", run_directory="/r", cache_directory="/c"),
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RunJournal]:
    journal = RunJournal(tmp_path)
    journal.open(OPENING)
    yield journal
    journal.close()


def test_what_was_written_is_read(journal: RunJournal, tmp_path: Path) -> None:
    journal.write("a", StepMark.BEGUN)
    journal.write("a", StepMark.DONE)
    assert read_journal(tmp_path) == (
        OPENING,
        [JournalLine("a", StepMark.BEGUN), JournalLine("a", StepMark.DONE)],
    )


def test_a_closed_journal_goes_on(journal: RunJournal, tmp_path: Path) -> None:
    journal.write("a", StepMark.BEGUN)
    journal.close()
    journal.close()
    journal.write("a", StepMark.DONE)
    journal.close()
    assert read_journal(tmp_path) == (
        OPENING,
        [JournalLine("a", StepMark.BEGUN), JournalLine("a", StepMark.DONE)],
    )


def test_a_line_cut_short_ends_the_journal(journal: RunJournal, tmp_path: Path) -> None:
    journal.write("a", StepMark.BEGUN)
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"step":"b","ma')
    assert read_journal(tmp_path) == (OPENING, [JournalLine("a", StepMark.BEGUN)])


@pytest.mark.parametrize("content", [None, b"", b'{"engine":"x"'])
def test_no_journal(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / NAME).write_bytes(content)
    assert read_journal(tmp_path) is None


def test_steps_are_unfinished_until_undone() -> None:
    marks = [
        ("a", StepMark.BEGUN),
        ("a", StepMark.DONE),
        ("b", StepMark.BEGUN),
        ("c", StepMark.BEGUN),
        ("b", StepMark.UNDONE),
    ]
    assert unfinished([JournalLine(step, mark) for step, mark in marks]) == ["c", "a"]


def test_the_end_of_the_command_is_remembered(journal: RunJournal, tmp_path: Path) -> None:
    journal.write("command", StepMark.BEGUN)
    assert last_exit(tmp_path) is None
    journal.write_exit(Exit(code=137, out_of_memory=True))
    assert last_exit(tmp_path) == Exit(code=137, out_of_memory=True)
    found = read_journal(tmp_path)
    assert found is not None
    assert unfinished(found[1]) == ["command"]


def test_no_journal_has_no_end_of_a_command(tmp_path: Path) -> None:
    assert last_exit(tmp_path) is None

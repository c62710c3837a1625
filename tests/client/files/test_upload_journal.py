"""What is kept of an upload, and what is not."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from lading.client.files.upload_journal import UploadJournal, journal_path

LOCATOR = "0" * 32 + "+3+A" + "1" * 40 + "@ffffffff"
BLOCK = "0" * 32 + "+3"


def _state(journal: UploadJournal) -> tuple[dict[str, str], dict[str, str], str]:
    return journal.blocks, journal.locators, journal.collection


def test_the_next_one_knows_what_was_noted(tmp_path: Path) -> None:
    path = journal_path(tmp_path / "cache", "server", "token", "files")
    with UploadJournal(path) as journal:
        journal.note_block("k", BLOCK)
        journal.note_locator(LOCATOR)
    with UploadJournal(path) as journal:
        assert _state(journal) == ({"k": BLOCK}, {BLOCK: LOCATOR}, "")
    assert path.stat().st_mode & 0o777 == 0o600
    assert journal_path(tmp_path, "a") != journal_path(tmp_path, "b")


def test_a_line_that_was_cut_off_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with UploadJournal(path) as journal:
        journal.note_block("k", BLOCK)
        journal.note_block("l", BLOCK)
    os.truncate(path, path.stat().st_size - 5)
    with UploadJournal(path) as journal:
        assert journal.blocks == {"k": BLOCK}
        journal.note_block("m", BLOCK)
    with UploadJournal(path) as journal:
        assert journal.blocks == {"k": BLOCK, "m": BLOCK}


def test_a_finished_upload_keeps_only_what_it_used(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with UploadJournal(path) as journal:
        journal.note_block("old", "1" * 32 + "+1")
        journal.note_locator("1" * 32 + "+1")
        journal.note_block("k", BLOCK)
        journal.note_locator(LOCATOR)
        journal.note_collection("uuid", ["k", "never noted"])
    with UploadJournal(path) as journal:
        assert _state(journal) == ({"k": BLOCK}, {BLOCK: LOCATOR}, "uuid")


def test_without_a_path_or_a_place_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (None, tmp_path / "file" / "j"):
        with UploadJournal(path) as journal:
            journal.note_block("k", BLOCK)
            journal.note_collection("uuid", ["k"])
            assert journal.blocks == {"k": BLOCK}
        with UploadJournal(path) as journal:
            assert _state(journal) == ({}, {}, "")


def test_the_second_of_two_at_once_keeps_nothing(tmp_path: Path) -> None:
    with UploadJournal(tmp_path / "j") as first, UploadJournal(tmp_path / "j") as second:
        second.note_block("k", BLOCK)
        first.note_block("l", BLOCK)
    with UploadJournal(tmp_path / "j") as journal:
        assert journal.blocks == {"l": BLOCK}


def test_a_full_disk_ends_the_journal_and_nothing_else(tmp_path: Path) -> None:
    with UploadJournal(tmp_path / "j") as journal:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        # As a full disk does: a file that is longer than this is refused.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            journal.note_block("k", BLOCK)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        journal.note_block("l", BLOCK)
        assert journal.blocks == {"k": BLOCK, "l": BLOCK}
    assert (tmp_path / "j").read_bytes() == b""


def add_old(folder: Path) -> Path:
    old = folder / "old.jsonl"
    old.write_text("")
    os.utime(old, (0, 0))
    return old


def test_old_journals_go_once_a_day(tmp_path: Path) -> None:
    old = add_old(tmp_path)
    with UploadJournal(tmp_path / "new.jsonl"):
        assert not old.exists()
    add_old(tmp_path)
    with UploadJournal(tmp_path / "new.jsonl"):
        assert old.exists()
    os.utime(tmp_path / "searched", (0, 0))
    with UploadJournal(tmp_path / "new.jsonl"):
        assert not old.exists()

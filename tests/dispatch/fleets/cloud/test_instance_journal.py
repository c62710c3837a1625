from __future__ import annotations

from pathlib import Path

from lading.dispatch.fleets.cloud.machine import InstanceJournal, InstanceRecord


def test_entries_outlive_the_dispatcher(tmp_path: Path) -> None:
    path = tmp_path / "home" / "instances.json"
    first = InstanceJournal(path)
    first.note("i-1", made=10.0, waited_since=10.0)
    first.note("i-2", made=20.0, waited_since=0.0)
    second = InstanceJournal(path)
    assert second.find("i-1") == InstanceRecord(10.0, 10.0)
    second.keep(["i-2"])
    assert InstanceJournal(path).find("i-1") is None
    assert InstanceJournal(path).find("i-2") == InstanceRecord(20.0, 0.0)


def test_a_damaged_file_counts_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "instances.json"
    path.write_text("{")
    assert InstanceJournal(path).find("i-1") is None


def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    journal = InstanceJournal(tmp_path / "file" / "instances.json")
    journal.note("i-1", made=1.0, waited_since=1.0)
    assert journal.find("i-1") == InstanceRecord(1.0, 1.0)

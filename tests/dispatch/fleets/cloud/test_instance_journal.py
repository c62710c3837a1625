from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import NotFound
from lading.dispatch.fleets.cloud.instance_journal import (
    CONSOLE,
    LONGEST,
    SUPERVISORS,
    InstanceJournal,
    InstanceRecord,
    MachineLogRecord,
    MachineLogs,
)


def test_entries_outlive_the_dispatcher(tmp_path: Path) -> None:
    path = tmp_path / "home" / "instances.json"
    first = InstanceJournal(path)
    first.note("i-1", created=10.0, waited_since=10.0)
    first.note("i-2", created=20.0, waited_since=0.0)
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
    journal.note("i-1", created=1.0, waited_since=1.0)
    assert journal.find("i-1") == InstanceRecord(1.0, 1.0)


def gone(id: str, at: float = 1e9) -> MachineLogRecord:
    return MachineLogRecord(id=id, type="small", at=at, why="it did not boot")


def test_the_end_of_each_log_of_a_vm_is_kept(tmp_path: Path) -> None:
    logs = MachineLogs(tmp_path)
    logs.keep(gone("i-1"), {CONSOLE: b"x" * LONGEST + b"panic", SUPERVISORS: b""})
    record, texts = logs.find("i-1")
    assert record.logs == {CONSOLE: LONGEST}
    assert texts[CONSOLE].endswith("xpanic")
    assert logs.records() == [record]


def test_the_latest_vms_are_kept_for_two_weeks(tmp_path: Path) -> None:
    logs = MachineLogs(tmp_path)
    for number in range(203):
        logs.keep(gone(f"i-{number}", at=1e9 + number), {CONSOLE: b"x"})
    assert [one.id for one in logs.records()] == [f"i-{number}" for number in range(202, 2, -1)]
    logs.keep(gone("i-new", at=1e9 + 15 * 86400), {CONSOLE: b"x"})
    assert [one.id for one in logs.records()] == ["i-new"]


@pytest.mark.parametrize("id", ["..", "../..", "a/../../b", ".", "x" * 5000, "a\0b"])
def test_no_name_of_a_vm_leads_out_of_the_directory(tmp_path: Path, id: str) -> None:
    logs = MachineLogs(tmp_path / "machines")
    logs.keep(gone(id), {CONSOLE: b"x"})
    assert [one.name for one in tmp_path.iterdir()] == ["machines"]
    assert logs.find(id)[1] == {CONSOLE: "x"}


def test_logs_that_are_not_there_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="i-1: no log of such an instance is kept"):
        MachineLogs(tmp_path).find("i-1")
    with pytest.raises(NotFound):
        MachineLogs(None).find("i-1")

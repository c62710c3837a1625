"""What outlives the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import IllegalTransition
from lading.core.hpc.daemon_states import CodeStatus, ContainerStatus, ResultStatus, StartedBy
from lading.hpc.daemon_memory import DaemonMemory, load


def test_everything_comes_back(tmp_path: Path) -> None:
    record = DaemonMemory(
        path=tmp_path / "state.json", given={"worldRank": 1}, parameters={"a": [1]}, mark="m"
    )
    record.enter(CodeStatus.RUNNING)
    record.started_by = StartedBy.DAEMON
    record.enter(CodeStatus.STOPPED)
    record.deliver(ResultStatus.UPLOADING)
    record.judge(ContainerStatus.FS_ERROR)
    record.judge(ContainerStatus.FS_ERROR)
    again = load(tmp_path / "state.json")
    assert (again.code, again.result, again.container) == ("Stopped", "Uploading", "FSError")
    assert (again.settings.world_rank, again.parameters, again.started_by, again.mark) == (
        1,
        {"a": [1]},
        "daemon",
        "m",
    )


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """An earlier daemon's was writable by all."""
    record = DaemonMemory(path=tmp_path / "state.json")
    record.save()
    assert record.path.stat().st_mode & 0o777 == 0o600
    assert load(record.path) == record


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"code": "Waiting"}'])
def test_what_cannot_be_read_is_put_aside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    assert load(path) == DaemonMemory(path=path)
    assert (tmp_path / "state.broken").read_text() == text


def test_a_change_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    record = DaemonMemory(path=tmp_path / "state.json")
    with pytest.raises(IllegalTransition):
        record.enter(CodeStatus.KILLED)
    assert record.code is CodeStatus.WAITING

"""Annexes that a supervisor starts, acted by shells."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from lading.core.errors import ExecutionError
from lading.supervisor.gang.remote_rank_client import Invitation, RemoteRankClient
from lading.supervisor.supervisor_config import RankLauncherConfig, SupervisorConfig

TOLD = SupervisorConfig(
    container_uuid="zzzzz-dz642-000000000000001", supervisor_token="secret", run_directory="/r",
    cache_directory="/c", api_url="https://there",
)  # fmt: skip


def test_each_is_told_its_rank_and_hands_back_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("PEM")
    script = (
        f'IFS= read -r line; printf %s "$line" > {tmp_path}/$0; '
        f"echo rank $0; cat > {tmp_path}/$0.more"
    )
    told = structs.replace(
        TOLD, annex_command=("sh", "-c", script, "{rank}"), api_ca_file=str(tmp_path / "ca")
    )
    annexes = RemoteRankClient(told)
    spread = annexes.open(3)
    assert spread is not None
    for rank, (reading, writing) in enumerate(spread.pipes, 1):
        assert os.read(reading, 100) == f"rank {rank}\n".encode()
        os.write(writing, b"more")
    annexes.close()
    for rank in (1, 2):
        found = msgspec.json.decode((tmp_path / str(rank)).read_bytes(), type=Invitation)
        assert found == Invitation(rank=rank, wire=spread.wire, assignment=told, certificate="PEM")
        assert (tmp_path / f"{rank}.more").read_text() == "more"
    assert len(spread.descriptors) == 4


def test_a_gang_on_one_machine_has_none() -> None:
    assert RemoteRankClient(TOLD).open(4) is None
    assert RemoteRankClient(structs.replace(TOLD, annex_command=("false",))).open(1) is None


def test_who_does_not_leave_is_ended() -> None:
    annexes = RemoteRankClient(
        structs.replace(TOLD, annex_command=("sleep", "60")), leave_time=0.05
    )
    annexes.open(2)
    annexes.close()
    annexes.close()


def test_a_program_that_is_not_there_is_said() -> None:
    with pytest.raises(ExecutionError, match="cannot be run"):
        RemoteRankClient(structs.replace(TOLD, annex_command=("/none",))).open(2)


def test_outposts_are_reached_by_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "line"
    program.write_text(
        '#!/bin/sh\nread -r course; read -r invitation; echo "$course $invitation"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr("lading.supervisor.gang.remote_rank_client.sys.executable", str(program))
    told = structs.replace(
        TOLD,
        outposts=RankLauncherConfig(
            ranks=(("10.0.0.2", 7), ("::1", 8)), certificate="CERT", key="KEY"
        ),
    )
    annexes = RemoteRankClient(told)
    spread = annexes.open(3)
    assert spread is not None
    said = os.read(spread.pipes[1][0], 10_000).decode()
    annexes.close()
    course, _, invitation = said.partition("} {")
    assert '"address":"::1","port":8,"certificate":"CERT","key":"KEY"' in course
    # What lets it in is not told to the other end.
    assert "KEY" not in invitation
    with pytest.raises(ExecutionError, match="2 rank launchers for 3 further ranks"):
        RemoteRankClient(told).open(4)
    assert "KEY" not in repr(told)

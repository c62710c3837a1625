from __future__ import annotations

import json
from pathlib import Path

import pytest

from lading.dispatch.fleets.cloud import smoke_test
from tests.reality import need_program, need_root


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    told: dict[str, str] = json.loads(capsys.readouterr().out)
    return told


def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(smoke_test, "SBIN", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))


def test_crun_runs_a_container(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_root()
    need_program("crun")
    assert smoke_test.main(str(tmp_path / "there")) == 0
    assert found(capsys) == {"engine": "crun", "said": "a container ran as process 1"}
    assert list((tmp_path / "there").iterdir()) == []


def test_docker_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs(tmp_path, monkeypatch, docker="echo 20.10.24")
    assert smoke_test.main(str(tmp_path)) == 0
    assert found(capsys) == {"engine": "docker", "said": "it serves, version 20.10.24"}


def test_what_an_engine_says_when_it_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs(tmp_path, monkeypatch, podman="echo cannot connect >&2; exit 125")
    assert smoke_test.main(str(tmp_path)) == 1
    assert found(capsys) == {"engine": "podman", "error": "exit code 125: cannot connect"}


def test_no_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs(tmp_path, monkeypatch)
    assert smoke_test.main(str(tmp_path)) == 1
    assert found(capsys) == {"engine": "", "error": "there is neither crun nor docker nor podman"}

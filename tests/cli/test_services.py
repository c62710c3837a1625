"""lading dispatch hands over to the wiring; the dispatching itself is tested there and in
tests/system.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lading.cli.main import cli
from lading.wiring import further_dispatcher
from lading.wiring.further_dispatcher import DispatcherReady, Membership

TOKEN = "v2/zzzzz-gj3su-000000000000000/secret"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Membership]:
    found: list[Membership] = []

    def main(
        membership: Membership,
        *,
        fleet: str,
        data: Path,
        config: Path | None,
        on_ready: Callable[[DispatcherReady], None],
    ) -> int:
        found.append(membership)
        on_ready(DispatcherReady(api=membership.api, fleet=fleet, data=data))
        return 0

    monkeypatch.setattr(further_dispatcher, "run_further", main)
    return found


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["dispatch", *map(str, arguments)])


def test_by_file_of_admission(told: list[Membership], tmp_path: Path) -> None:
    (tmp_path / "join").write_text(
        json.dumps({"api": "https://h:1", "token": TOKEN, "certificate": "PEM"})
    )
    done = run("--join", tmp_path / "join", "--data", tmp_path, "--fleet", "slurm")
    assert done.stdout == f"lading: dispatching to slurm for https://h:1 from {tmp_path}\n"
    assert told == [Membership(api="https://h:1", token=TOKEN, certificate="PEM")]


def test_by_address_and_token(told: list[Membership], tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "ca").write_text("PEM")
    named = ("--api", "https://h:1/", "--token-file", tmp_path / "token", "--data", tmp_path)
    assert json.loads(run(*named, "--json").stdout)["fleet"] == "local"
    run(*named, "--ca-file", tmp_path / "ca")
    assert told == [
        Membership(api="https://h:1", token=TOKEN),
        Membership(api="https://h:1", token=TOKEN, certificate="PEM"),
    ]


def test_the_server_has_to_be_named_once(told: list[Membership], tmp_path: Path) -> None:
    (tmp_path / "join").write_text("{}")
    for arguments in (
        (),
        ("--api", "https://h:1"),
        ("--join", tmp_path / "join", "--api", "https://h:1"),
    ):
        done = run("--data", tmp_path, *arguments)
        assert done.exit_code == 2
        assert done.stderr.startswith("lading: ")
    assert told == []

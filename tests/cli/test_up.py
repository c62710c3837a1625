"""lading up hands over to the wiring; the serving itself is tested there and in tests/system."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from lading.cli.main import cli
from lading.core.errors import Conflict
from lading.supervisor.engines.choice import EngineChoice
from lading.wiring import up
from lading.wiring.up import ServerReady


def _serve(
    data: Path,
    listen: str,
    *,
    also: tuple[str, ...],
    on_ready: Callable[[ServerReady], None],
    has_log_files: bool,
    until_idle: bool,
    may_move: bool,
) -> int:
    assert (also, has_log_files, until_idle) == ((), True, False)
    assert may_move == (listen == "127.0.0.1:9440")
    on_ready(ServerReady(address=listen, data=data, seconds=0.7))
    return 3


def test_one_line_when_it_is_ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(up, "main", _serve)
    done = CliRunner().invoke(cli, ["up", "--data", str(tmp_path)])
    assert done.exit_code == 3
    assert done.stdout == (
        f"lading: serving https://127.0.0.1:9440/ from {tmp_path}, "
        f"ready in 0.7 s; clients: . {tmp_path}/env\n"
    )
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    answer = json.loads(CliRunner().invoke(cli, ["up", "--json", "--listen", "[::1]:1"]).stdout)
    assert answer == {
        "address": "[::1]:1", "data": str(tmp_path / "lading"), "seconds": 0.7, "engine": None
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (EngineChoice(name="podman", is_rootless=True), "lading: engine: podman rootless"),
        (EngineChoice(name="podman", warning="no limits"), "engine: podman\nlading: no limits"),
        (EngineChoice(mend="apt install crun"), "there is one; to get one: apt install crun"),
    ],
)
def test_the_engine_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: EngineChoice, said: str
) -> None:
    def serve(
        data: Path, listen: str, *, on_ready: Callable[[ServerReady], None], **_: object
    ) -> int:
        on_ready(ServerReady(address=listen, data=data, seconds=0.7, engine=found))
        return 0

    monkeypatch.setattr(up, "main", serve)
    assert said in CliRunner().invoke(cli, ["up", "--data", str(tmp_path)]).output


def test_what_prevents_it_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise Conflict("another serves this directory")

    monkeypatch.setattr(up, "main", refuse)
    done = CliRunner().invoke(cli, ["up", "--data", str(tmp_path)])
    assert (done.exit_code, done.stderr) == (1, "lading: another serves this directory\n")


def test_an_idle_time_is_for_one_server(tmp_path: Path) -> None:
    more = ["--until-idle", "--also", "127.0.0.1:1"]
    done = CliRunner().invoke(cli, ["up", "--data", str(tmp_path), *more])
    assert (done.exit_code, "leave out --also" in done.stderr) == (2, True)

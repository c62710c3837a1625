"""The connection of commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from lading.cli.main import cli
from lading.cli.session import connect


def test_without_a_server_it_is_said_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ARVADOS_API_HOST", "ARVADOS_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = CliRunner().invoke(cli, ["image", "ls"])
    assert done.exit_code == 1
    assert done.stderr.startswith("lading: no server: start one with 'lading up'")
    assert "'. DIR/env'" in done.stderr


async def test_a_session_has_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARVADOS_API_HOST", "127.0.0.1:1")
    monkeypatch.setenv("ARVADOS_API_TOKEN", "v2/a/b")
    async with connect() as session:
        assert session.api.token == "v2/a/b"

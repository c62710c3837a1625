"""The connection of commands."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.applications import Starlette

from lading.cli.main import cli
from lading.cli.running.waiting import tell_failure
from lading.cli.session import CliSession, connect, session_with, tell_list, tell_page
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.outcomes import RequestOutcome
from lading.client.servers.environment import Server
from lading.client.transport import HttpTransport
from lading.core.errors import Unavailable
from lading.net.certificates import make_certificate
from lading.testing.asgi import serving
from lading.testing.blocks import TOKEN, BlockStore


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


class _Screen(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_people_hear_of_the_page(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    screen = _Screen(is_terminal)
    monkeypatch.setattr("sys.stderr", screen)
    transport = HttpTransport()
    session = CliSession(
        api=ApiClient(transport, "t"), blocks=BlockClient(transport, "t"), address="host:9440"
    )
    tell_page(session, "zzzzz-xvhdp-000000000000000")
    tell_list(session, "a b.")
    wanted = (
        "lading: page: https://host:9440/ui/requests/zzzzz-xvhdp-000000000000000\n"
        "lading: page: https://host:9440/ui/requests?q=a+b.\n"
    )
    assert screen.getvalue() == (wanted if is_terminal else "")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_people_hear_where_the_first_failure_is(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    screen = _Screen(is_terminal)
    monkeypatch.setattr("sys.stderr", screen)
    transport = HttpTransport()
    session = CliSession(
        api=ApiClient(transport, "t"), blocks=BlockClient(transport, "t"), address="host:9440"
    )
    good, bad = (
        RequestOutcome({"uuid": one, "state": "Final", "container_uuid": "c"},
                       {"state": "Complete", "exit_code": code})
        for one, code in (("good", 0), ("bad", 3))
    )  # fmt: skip
    tell_failure(session, [good])
    assert screen.getvalue() == ""
    tell_failure(session, [good, bad, bad])
    wanted = "lading: page: https://host:9440/ui/requests/bad\n"
    assert screen.getvalue() == (wanted if is_terminal else "")


def test_a_server_that_does_not_run_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARVADOS_API_HOST", "127.0.0.1:1")
    monkeypatch.setenv("ARVADOS_API_TOKEN", "v2/a/b")
    done = CliRunner().invoke(cli, ["request", "list"])
    assert done.exit_code == 1
    assert "Connection refused; no server runs there: start it with 'lading up'" in done.stderr


def test_another_server_that_does_not_run_is_not_mistaken_for_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARVADOS_API_HOST", "127.0.0.1:1")
    monkeypatch.setenv("ARVADOS_API_TOKEN", "v2/a/b")
    done = CliRunner().invoke(cli, ["image", "pull", "--plain-http", "127.0.0.2:1/tools:1"])
    assert done.exit_code == 1
    assert "http://127.0.0.2:1: cannot be reached: Connection refused" in done.stderr
    assert "lading up" not in done.stderr


async def test_a_certificate_that_is_not_trusted_is_told_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate, key = make_certificate("localhost", now=datetime.now(UTC))
    (tmp_path / "crt").write_text(certificate)
    (tmp_path / "key").write_text(key)
    monkeypatch.setenv("ARVADOS_API_TOKEN", "v2/a/b")
    monkeypatch.delenv("ARVADOS_API_HOST_INSECURE", raising=False)
    files = {"ssl_certfile": str(tmp_path / "crt"), "ssl_keyfile": str(tmp_path / "key")}
    async with serving(Starlette(), **files) as server:
        monkeypatch.setenv("ARVADOS_API_HOST", f"127.0.0.1:{server.port}")
        with pytest.raises(Unavailable, match="SSL_CERT_FILE names the certificates to trust"):
            async with connect() as session:
                await session.api.list("users")


async def test_blocks_of_a_server_of_this_machine_take_its_local_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = BlockStore()
    (tmp_path / "env").write_text("ARVADOS_API_HOST=127.0.0.1:1\n")
    monkeypatch.setenv("LADING_DATA", str(tmp_path))
    mine = Server(address="127.0.0.1:1", token=TOKEN)
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    async with serving(store.app, uds="api.sock"), session_with(mine) as session:
        locator = await session.blocks.put(bytes(1 << 20))
        with (tmp_path / "file").open("wb") as file:
            # No files of blocks are lent there.
            await session.blocks.save(locator, file.fileno())
    assert (tmp_path / "file").read_bytes() == bytes(1 << 20)

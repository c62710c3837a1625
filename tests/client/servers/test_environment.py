from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lading.client.servers.environment import (
    Server,
    default_data_directory,
    find_api_socket,
    find_lender,
    find_server,
    traceparent_of,
)
from lading.core.errors import Invalid


def _settings(home: Path, text: str) -> None:
    path = home / ".config" / "arvados" / "settings.conf"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def _find(home: Path, **environ: str) -> Server:
    authorities = home / "ca-certificates.crt"
    return find_server({"HOME": str(home), **environ}, home / "data", authorities=authorities)


def test_the_environment_comes_first(tmp_path: Path) -> None:
    _settings(tmp_path, "ARVADOS_API_HOST=other\nARVADOS_API_TOKEN=no\n")
    found = _find(
        tmp_path, ARVADOS_API_HOST="host:1", ARVADOS_API_TOKEN="t", ARVADOS_API_HOST_INSECURE="1"
    )
    assert found == Server(address="host:1", token="t", insecure=True)


def test_then_the_settings_file(tmp_path: Path) -> None:
    _settings(
        tmp_path,
        "# comment\nARVADOS_API_HOST = 'host:2'\nARVADOS_API_TOKEN=t # why\nnonsense\n#X=1\n",
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "env").write_text("export ARVADOS_API_HOST=no\n")
    assert _find(tmp_path) == Server(address="host:2", token="t")


def test_then_the_server_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    lines = (
        "export ARVADOS_API_HOST=127.0.0.1:9440\n"
        "export ARVADOS_API_TOKEN=t\n"
        "export ARVADOS_API_HOST_INSECURE=1\n"
    )
    (tmp_path / "data" / "env").write_text(lines)
    assert _find(tmp_path) == Server(address="127.0.0.1:9440", token="t", insecure=True)


def test_the_settings_file_follows_the_standard_directory(tmp_path: Path) -> None:
    _settings(tmp_path, "ARVADOS_API_HOST=host\nARVADOS_API_TOKEN=t\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / ".config")}
    assert find_server(environ, tmp_path).address == "host"


def test_a_token_is_sent_only_to_its_own_host(tmp_path: Path) -> None:
    _settings(tmp_path, "ARVADOS_API_HOST=host\nARVADOS_API_TOKEN=t\n")
    assert _find(tmp_path, ARVADOS_API_HOST="host").token == "t"
    with pytest.raises(Invalid, match="no token for elsewhere: set ARVADOS_API_TOKEN"):
        _find(tmp_path, ARVADOS_API_HOST="elsewhere")


def test_no_server_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="start one with 'lading up', log in with"):
        _find(tmp_path)


@pytest.mark.parametrize(
    "host", ["host:port", "http://host", "host/path", "user@host", "a b", "::1"]
)
def test_what_is_no_host_is_said_so(tmp_path: Path, host: str) -> None:
    with pytest.raises(Invalid, match="not a host; write HOST or HOST:PORT"):
        _find(tmp_path, ARVADOS_API_HOST=host, ARVADOS_API_TOKEN="t")


def test_an_address_of_version_six(tmp_path: Path) -> None:
    assert (
        _find(tmp_path, ARVADOS_API_HOST="[::1]:9440", ARVADOS_API_TOKEN="t").address
        == "[::1]:9440"
    )


@pytest.mark.parametrize("content", [b"ARVADOS_API_HOST='x", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "env").write_bytes(content)
    with pytest.raises(Invalid, match="data/env"):
        _find(tmp_path)


async def test_the_transport_leads_there(tmp_path: Path) -> None:
    (tmp_path / "ca-certificates.crt").touch()
    found = _find(tmp_path, ARVADOS_API_HOST="https://host:1/", ARVADOS_API_TOKEN="t")
    assert found.authorities == tmp_path / "ca-certificates.crt"
    async with found.transport() as transport:
        assert transport.address == "https://host:1"


def test_the_server_that_lends_is_the_one_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    for place, address in ((ours, "127.0.0.1:1"), (other, "127.0.0.1:2")):
        place.mkdir()
        (place / "env").write_text(f"export ARVADOS_API_HOST={address}\n")
    assert find_lender({}, ours, "127.0.0.1:1") == ours / "api.lend"
    assert find_lender({"LADING_DATA": str(other)}, ours, "127.0.0.1:2") == other / "api.lend"
    # The token is for another server than that of the directory.
    assert find_lender({"LADING_DATA": str(other)}, ours, "127.0.0.1:1") is None
    assert find_lender({}, ours, "example.org") is None
    assert find_lender({}, tmp_path / "none", "127.0.0.1:1") is None
    (other / "env").write_text("ARVADOS_API_HOST='")
    assert find_lender({}, other, "127.0.0.1:2") is None
    if os.geteuid() == 0:
        os.chown(ours / "env", 1, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert find_lender({}, ours, "127.0.0.1:1") is None


def test_where_data_is_kept(tmp_path: Path) -> None:
    assert default_data_directory({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "lading"
    assert default_data_directory({}) == Path.home() / ".local/share/lading"


def test_the_data_directory() -> None:
    assert default_data_directory({"LADING_DATA": "/d", "XDG_DATA_HOME": "/x"}) == Path("/d")
    assert default_data_directory({"XDG_DATA_HOME": "/x"}) == Path("/x/lading")


def test_the_trace_of_the_caller() -> None:
    context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert traceparent_of({"TRACEPARENT": context}) == context
    assert traceparent_of({"TRACEPARENT": "nonsense"}) == traceparent_of({}) == ""


def test_the_local_socket_is_one_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "data"
    here.mkdir()
    (here / "env").write_text("export ARVADOS_API_HOST=h:1\n")
    assert find_api_socket({}, here, "h:1") is None
    (here / "api.sock").write_text("")
    assert find_api_socket({}, here, "h:1") is None
    (here / "api.sock").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        # A short path: that of a test can be too long for a socket.
        listening.bind("data/api.sock")
        assert find_api_socket({}, here, "h:1") == here / "api.sock"
        assert find_api_socket({"LADING_DATA": str(here)}, tmp_path, "h:1") == here / "api.sock"
        assert find_api_socket({}, here, "h:2") is None
    if os.geteuid() == 0:
        os.chown(here / "api.sock", 1, -1, follow_symlinks=False)
        assert find_api_socket({}, here, "h:1") is None

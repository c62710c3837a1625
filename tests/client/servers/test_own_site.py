"""The user's own site: when it is started, and when not."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.client.servers import own_site
from lading.client.servers.own_site import find_or_start, is_serving, may_be_started
from lading.core.errors import Conflict, Invalid, Unavailable

ENV = """export ARVADOS_API_HOST=127.0.0.1:9440
export ARVADOS_API_TOKEN=t
export ARVADOS_API_HOST_INSECURE=1
"""


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The data directories for which a start was asked for."""
    asked: list[Path] = []

    def start(_: object, data: Path, **__: object) -> None:
        asked.append(data)
        data.mkdir(exist_ok=True)
        (data / "env").write_text(ENV)

    monkeypatch.setattr(own_site, "start", start)
    return asked


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose lock a process holds."""
    descriptor = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield tmp_path
    os.close(descriptor)


def _find(home: Path, **environ: str) -> str:
    named = {"HOME": str(home), **environ}
    return find_or_start(named, home / "data", say=print).address


def test_it_is_started_where_nobody_named_a_server(starts: list[Path], tmp_path: Path) -> None:
    assert _find(tmp_path) == "127.0.0.1:9440"
    assert starts == [tmp_path / "data"]


def test_a_server_that_was_named_is_never_replaced(starts: list[Path], tmp_path: Path) -> None:
    named = {"ARVADOS_API_HOST": "far:1", "ARVADOS_API_TOKEN": "t"}
    assert _find(tmp_path, **named) == "far:1"
    settings = tmp_path / ".config" / "arvados" / "settings.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("ARVADOS_API_HOST=away:1\nARVADOS_API_TOKEN=t\n")
    assert _find(tmp_path) == "away:1"
    assert starts == []


def test_the_variables_of_its_own_file_name_it(starts: list[Path], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "env").write_text(ENV)
    named = {"ARVADOS_API_HOST": "127.0.0.1:9440", "ARVADOS_API_TOKEN": "t"}
    _find(tmp_path, **named, LADING_DATA=str(tmp_path / "another"))
    assert starts == []
    _find(tmp_path, **named, LADING_DATA=str(data))
    assert starts == [data]


def test_a_start_can_be_forbidden(starts: list[Path], tmp_path: Path) -> None:
    refused = "no server: start one with 'lading up'"
    with pytest.raises(Invalid, match=refused):
        _find(tmp_path, LADING_START="never")
    with pytest.raises(Invalid, match=refused):
        find_or_start({"HOME": str(tmp_path)}, tmp_path / "data", say=print, may_start=False)
    assert starts == []


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(Invalid, match="LADING_START=no: must be auto or never"):
        may_be_started({"LADING_START": "no"})


def test_a_site_serves_once_it_has_told_its_address(locked: Path) -> None:
    assert not is_serving(locked)
    record = locked / "up.json"
    for address in ("", "127.0.0.1:9440"):
        record.write_text(json.dumps({"pid": 1, "address": address}))
        assert is_serving(locked) == bool(address)
    record.write_text("{")
    assert not is_serving(locked)


def test_a_record_without_the_lock_is_an_old_one(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "up.json").write_text(json.dumps({"address": "127.0.0.1:9440"}))
    assert not is_serving(tmp_path)


def test_a_start_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(Unavailable, match="your site did not start: .*/data.* is a file"):
        find_or_start(
            {**os.environ, "HOME": str(tmp_path), "LADING_START": "auto"},
            tmp_path / "data",
            say=print,
            is_chosen=True,
        )


@pytest.mark.parametrize(
    "unit", ["systemd/user/lading.service", "systemd/user/default.target.wants/lading.service"]
)
def test_a_service_is_started_by_systemd(tmp_path: Path, unit: str) -> None:
    path = tmp_path / ".config" / unit
    path.parent.mkdir(parents=True)
    path.write_text("ExecStart=/usr/bin/lading up --data %h/data --log stderr\n")
    with pytest.raises(Invalid, match="systemctl --user start lading"):
        _find(tmp_path)


def test_a_site_on_another_machine_is_named(locked: Path) -> None:
    (locked / "env").write_text(ENV)
    record = {"address": "127.0.0.1:9440", "boot": "another", "host": "login2"}
    (locked / "up.json").write_text(json.dumps(record))
    # The token must not reach who listens at the same address of this machine.
    for choice in ("auto", "never"):
        environ = {"HOME": str(locked), "LADING_START": choice}
        with pytest.raises(Conflict, match="your site runs on login2"):
            find_or_start(environ, locked, say=print)
    (locked / "up.json").write_text(json.dumps({**record, "boot": own_site.boot_id()}))
    assert find_or_start({"HOME": str(locked)}, locked, say=print).address == "127.0.0.1:9440"

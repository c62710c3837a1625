"""Units of systemd for `lading up`."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from lading.cli import service
from lading.cli.main import cli
from lading.cli.service import take_manager, tell_manager, unit_text
from tests.reality import need


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory on a machine without systemd."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LADING_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(service, "BOOTED", tmp_path / "none")
    return tmp_path


def _run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["service", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_a_service_of_the_user(home: Path) -> None:
    said = _run("install", "--user")
    unit = home / "config" / "systemd" / "user" / "lading.service"
    # Two users of one machine cannot have the same port.
    assert f"--data {home}/data --log stderr\n" in unit.read_text()
    assert "to start it: systemctl --user daemon-reload" in said
    assert "to start it: systemctl --user enable --now lading.service" in said
    _run("install", "--user")
    again = _run("install", "--user", "--listen", "127.0.0.1:1", code=1)
    assert "is there already; 'lading service remove' removes it" in again
    assert "data and containers stay" in _run("remove", "--user")
    assert not unit.exists()
    assert "there is no such service" in _run("remove", "--user", code=1)


def test_what_systemd_says_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = home / "bin"
    programs.mkdir()
    fake = programs / "systemctl"
    fake.write_text(
        '#!/bin/sh\ncase "$*" in *daemon-reload) ;; *) echo no bus >&2; exit 1;; esac\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(service, "BOOTED", home)
    said = _run("install", "--user", code=1)
    assert "systemctl --user enable --now lading.service: no bus" in said


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_manager_is_told_once_it_serves(tmp_path: Path, is_abstract: bool) -> None:
    address = f"@lading-test-{tmp_path}"[:100] if is_abstract else str(tmp_path / "notify")
    environ = {"NOTIFY_SOCKET": address, "HOME": "/"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{address[1:]}" if is_abstract else address)
        tell_manager(take_manager(environ), status="serving\nREADY=0")
        assert manager.recv(1000) == b"READY=1\nSTATUS=serving READY=0\n"
    assert environ == {"HOME": "/"}


def test_a_manager_that_does_not_listen_stops_nothing(tmp_path: Path) -> None:
    tell_manager(str(tmp_path / "none"), status="serving")
    tell_manager("", status="serving")


def test_the_unit_of_the_machine_needs_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--data /var/lib/lading --listen 127.0.0.1:9440 --log" in _run("install", "--print")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "needs root; sudo, or --user" in _run("install", code=1)


@pytest.mark.parametrize("of_user", [True, False])
def test_systemd_reads_the_unit(tmp_path: Path, of_user: bool) -> None:
    need(shutil.which("systemd-analyze") is not None, "systemd-analyze")
    text = unit_text(["/bin/true"], data=Path("/a b/$x%"), listen="[::1]:1", of_user=of_user)
    assert 'ExecStart=/bin/true up --data "/a b/$$x%%" --listen [::1]:1 --log stderr' in text
    unit = tmp_path / "lading.service"
    unit.write_text(text)
    which = ["--user"] if of_user else []
    done = subprocess.run(
        ["systemd-analyze", *which, "--man=no", "verify", str(unit)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "lading.service" not in done.stderr, done.stderr

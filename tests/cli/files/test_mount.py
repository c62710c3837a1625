"""lading mount: what it asks of whom; the mount itself is tests/system/test_mount.py."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lading.cli.files import mount as module
from lading.cli.main import cli
from lading.client.mount import mount_points
from lading.client.mount.layout import MountView
from lading.client.mount.service import MountSettings
from lading.core.errors import Unavailable

PDH = f"{'0' * 32}+10"
PROJECT = "zzzzz-j7d0g-000000000000001"


class Process:
    """A mount that was started."""

    pid = 77
    returncode: int | None = None


class Launcher:
    """Stands for the processes of `lading.client.mount.service`: keeps what it was asked for."""

    def __init__(self, error: Unavailable | None = None, *, interrupted: bool = False) -> None:
        self.settings: list[MountSettings] = []
        self.finished = 0
        self._error = error
        self._interrupted = interrupted

    def launch(self, settings: MountSettings, **more: Any) -> Process:
        if self._error is not None:
            raise self._error
        self.settings.append(settings)
        return Process()

    def wait(self, process: Process) -> dict[str, object]:
        if self._interrupted:
            raise KeyboardInterrupt
        return {"bytes_read": 5}

    def finish(self, process: Process) -> dict[str, object]:
        self.finished += 1
        return {"bytes_read": 9} if self._interrupted else {}


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Launcher:
    monkeypatch.setenv("ARVADOS_API_HOST", "example.org:1")
    monkeypatch.setenv("ARVADOS_API_TOKEN", "secret")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    return _use(monkeypatch, Launcher())


def _use(monkeypatch: pytest.MonkeyPatch, launcher: Launcher) -> Launcher:
    monkeypatch.setattr(module, "service", launcher)
    return launcher


def _mount(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["mount", *arguments])


def test_in_the_background_by_default(launcher: Launcher, tmp_path: Path) -> None:
    done = _mount(
        str(tmp_path), "--json", "--cache-size", "1GiB", "--allow-other", "--timeout", "5s"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "mounted": str(tmp_path),
        "pid": 77,
        "log": str(tmp_path / "cache" / "lading" / "mount.log"),
    }
    (asked,) = launcher.settings
    assert (asked.view, asked.tied, asked.cache_size, asked.allow_other, asked.timeout) == (
        MountView.ALL, False, 1 << 30, True, 5,
    )  # fmt: skip
    assert asked.cache_directory == str(tmp_path / "cache" / "lading" / "blocks")
    assert launcher.finished == 0


@pytest.mark.parametrize(
    ("arguments", "view", "id"),
    [
        (["--collection", PDH], MountView.COLLECTION, PDH),
        (["--project", PROJECT], MountView.PROJECT, PROJECT),
        (["--by-id"], MountView.BY_ID, ""),
        (["--by-pdh"], MountView.BY_PDH, ""),
        (["--home"], MountView.HOME, ""),
        (["--shared"], MountView.SHARED, ""),
        (["--by-tag"], MountView.BY_TAG, ""),
    ],
)
def test_what_is_shown(
    launcher: Launcher, tmp_path: Path, arguments: list[str], view: MountView, id: str
) -> None:
    done = _mount(str(tmp_path), *arguments)
    assert done.exit_code == 0, done.output
    assert [(one.view, one.id) for one in launcher.settings] == [(view, id)]


def test_a_command_gives_its_exit_code(launcher: Launcher, tmp_path: Path) -> None:
    done = _mount(str(tmp_path), "--json", "--exec", "sh", "-c", "exit 7")
    assert done.exit_code == 7
    assert json.loads(done.stdout)["exit_code"] == 7
    assert launcher.settings[0].tied
    assert launcher.finished == 1


def test_a_command_ended_by_a_signal(launcher: Launcher, tmp_path: Path) -> None:
    assert _mount(str(tmp_path), "--exec", "sh", "-c", "kill -TERM $$").exit_code == 143


def test_a_command_that_is_not_there(launcher: Launcher, tmp_path: Path) -> None:
    done = _mount(str(tmp_path), "--exec", str(tmp_path / "nothing"))
    assert done.exit_code == 1
    assert "nothing: cannot be run: No such file" in done.stderr
    assert launcher.finished == 1


def test_in_the_foreground_until_somebody_unmounts(launcher: Launcher, tmp_path: Path) -> None:
    done = _mount(str(tmp_path), "--foreground", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (
        0,
        {"exit_code": 0, "statistics": {"bytes_read": 5}},
    )


def test_in_the_foreground_until_ctrl_c(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupted = _use(monkeypatch, Launcher(interrupted=True))
    done = _mount(str(tmp_path), "--foreground", "--json")
    assert (done.exit_code, json.loads(done.stdout)["statistics"]) == (0, {"bytes_read": 9})
    assert interrupted.finished == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--home", "--collection", PDH], "choose one of"),
        (["--exec"], "--exec needs a command"),
        (["--cache-size", "much"], "not a size"),
    ],
)
def test_wrong_use(launcher: Launcher, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = _mount(str(tmp_path), *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert launcher.settings == []


def test_what_cannot_be_mounted_is_said(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _use(monkeypatch, Launcher(Unavailable("/dev/fuse: not there; load the module: modprobe fuse")))
    done = _mount(str(tmp_path))
    assert (done.exit_code, done.stderr) == (
        1,
        "lading: /dev/fuse: not there; load the module: modprobe fuse\n",
    )


def test_unmount(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken: list[Path] = []
    monkeypatch.setattr(mount_points, "unmount", taken.append)
    done = _mount("--unmount", str(tmp_path), "--json")
    assert (json.loads(done.stdout), taken) == ({"unmounted": str(tmp_path)}, [tmp_path])
    assert "nothing is mounted" not in _mount("--unmount", str(tmp_path)).stderr

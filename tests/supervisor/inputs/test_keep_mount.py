from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.client.mount import mount_points, service
from lading.client.mount.layout import MountView
from lading.client.mount.service import MountSettings
from lading.core.containers.mounting.mount_steps import CollectionPath, KeepTree
from lading.core.errors import Unavailable
from lading.supervisor import linux
from lading.supervisor.inputs.keep_mount import KeepMount
from lading.supervisor.logs import Log
from lading.supervisor.supervisor_config import SupervisorConfig

PDH = f"{'0' * 32}+10"
WAITS = (
    "import sys; print('noted', file=sys.stderr, flush=True); "
    "print('ready', flush=True); sys.stdin.read()"
)


class Launcher:
    """Starts processes that mount nothing."""

    def __init__(self) -> None:
        self.settings: list[MountSettings] = []
        self.error: Unavailable | None = None
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(
        self, settings: MountSettings, *, log: int, pass_fds: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        self.settings.append(settings)
        if self.error is not None:
            raise self.error
        assert [os.fstat(one).st_ino > 0 for one in pass_fds] == [True] * len(pass_fds)
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-c", WAITS], stdin=pipe, stdout=pipe, stderr=log
        )
        assert process.stdout is not None
        process.stdout.readline()
        self.processes.append(process)
        return process


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    found = Launcher()
    for module in (service, mount_points):
        monkeypatch.setattr(module, "check_fuse", lambda: None)
    monkeypatch.setattr(service, "launch", found)
    return found


def _keep(root: Path, *, private: bool = True, **more: Any) -> tuple[KeepMount, Log]:
    told = SupervisorConfig(
        container_uuid="zzzzz-dz642-000000000000001",
        supervisor_token="s",
        run_directory=str(root),
        cache_directory=str(root / "cache"),
        api_socket="/api.sock",
        **more,
    )
    log = Log(root / "log", lambda: datetime.now(UTC))
    return KeepMount(told, log, token="token", private=private), log


async def test_large_inputs_alone(launcher: Launcher, tmp_path: Path) -> None:
    keep, log = _keep(tmp_path, cache_size=77)
    await keep.open(shows_all=False)
    (asked,) = launcher.settings
    assert (asked.view, asked.token, asked.cache_size, asked.tied) == (
        MountView.BY_PDH,
        "token",
        77,
        True,
    )
    assert keep.place(CollectionPath(PDH, "a/b")) == tmp_path / "keep" / PDH / "a/b"
    assert keep.shown(tmp_path / "keep" / PDH) == tmp_path / "keep" / PDH
    await keep.close()
    await keep.close()
    log.close()
    assert not keep.is_open
    assert "noted" in (tmp_path / "log" / "arv-mount.txt").read_text()


async def test_everything(launcher: Launcher, tmp_path: Path) -> None:
    keep, log = _keep(tmp_path)
    await keep.open(shows_all=True)
    assert launcher.settings[0].view is MountView.ALL
    assert keep.place(CollectionPath(PDH, "a")) == tmp_path / "keep" / "by_id" / PDH / "a"
    assert keep.place(KeepTree("home")) == tmp_path / "keep" / "home"
    await keep.close()
    log.close()


async def test_for_an_engine_that_does_not_see_our_mounts(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(linux, "has_own_mounts", lambda: True)
    monkeypatch.setattr(
        linux, "open_machine_namespace", lambda: os.open("/proc/self/ns/mnt", os.O_RDONLY)
    )
    keep, log = _keep(tmp_path, private=False)
    await keep.open(shows_all=False)
    assert launcher.settings[0].namespace >= 0
    place = keep.place(CollectionPath(PDH))
    assert str(place).startswith("/proc/")
    assert keep.shown(place) == tmp_path / "keep" / PDH
    assert keep.shown(tmp_path / "other") == tmp_path / "other"
    await keep.close()
    log.close()


async def test_notes_are_in_the_log_of_the_container(tmp_path: Path) -> None:
    keep, log = _keep(tmp_path)
    keep.say("large.tar is read through the mount")
    log.close()
    assert "large.tar is read" in (tmp_path / "log" / "crunch-run.txt").read_text()


async def test_its_end_is_noticed(launcher: Launcher, tmp_path: Path) -> None:
    keep, log = _keep(tmp_path)
    waiting = asyncio.create_task(keep.ended())
    await asyncio.sleep(0)
    assert not waiting.done(), "there is none yet"
    waiting.cancel()
    await keep.open(shows_all=False)
    launcher.processes[0].kill()
    await asyncio.wait_for(keep.ended(), 60)
    await keep.close()
    log.close()


async def test_what_cannot_be_mounted_leaves_nothing(launcher: Launcher, tmp_path: Path) -> None:
    launcher.error = Unavailable("no server")
    keep, log = _keep(tmp_path)
    with pytest.raises(Unavailable, match="no server"):
        await keep.open(shows_all=False)
    assert not keep.is_open
    await keep.close()
    log.close()


async def test_one_that_is_given_up_while_it_starts_is_ended(
    launcher: Launcher, tmp_path: Path
) -> None:
    keep, log = _keep(tmp_path)
    opening = asyncio.create_task(keep.open(shows_all=False))
    while not launcher.settings:
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert keep.is_open
    await keep.close()
    log.close()

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lading.client.mount import service
from lading.client.mount.service import MountSettings
from lading.core.errors import Unavailable

READY = (
    "import sys; sys.stdin.readline(); print('{\"mounted\": true}', flush=True); sys.stdin.read()"
)
COUNTED = f'{READY}; print(\'{{"statistics": {{"bytes_read": 3}}}}\')'
REFUSES = 'import sys; sys.stdin.readline(); print(\'{"error": "no such thing"}\')'
ENDS = "raise SystemExit"
ODD = "import sys; sys.stdin.readline(); print([1], flush=True)"
SILENT = "import time; time.sleep(60)"
DEAF = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    f"{READY}; import time; time.sleep(60)"
)


def _settings(tmp_path: Path, *, tied: bool = True) -> MountSettings:
    return MountSettings(
        mountpoint=str(tmp_path), token="t", cache_directory=str(tmp_path), tied=tied
    )


def _use(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    real = subprocess.Popen

    def popen(command: list[str], **more: object) -> subprocess.Popen[bytes]:
        assert command[1:] == ["-m", "lading.client.mount"]
        return real([sys.executable, "-c", program], **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(subprocess, "Popen", popen)


def test_a_mount_is_started_and_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, READY)
    process = service.launch(_settings(tmp_path))
    assert process.poll() is None
    service.finish(process)
    assert process.poll() is not None
    assert service.finish(process) == {}


def test_its_statistics_come_at_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, COUNTED)
    process = service.launch(_settings(tmp_path, tied=False))
    assert service.wait(process) == {"bytes_read": 3}


@pytest.mark.parametrize(
    ("program", "message"),
    [(REFUSES, "no such thing"), (ENDS, "ended at once"), (ODD, "ended at once")],
)
def test_why_it_could_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, message: str
) -> None:
    _use(monkeypatch, program)
    with pytest.raises(Unavailable, match=message):
        service.launch(_settings(tmp_path), log=subprocess.DEVNULL)


def test_one_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, SILENT)
    with pytest.raises(Unavailable, match="nothing was mounted within"):
        service.launch(_settings(tmp_path), limit=0.1)


def test_waiting_for_it_does_not_end_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, COUNTED)
    process = service.launch(_settings(tmp_path))
    assert service.wait(process, limit=0.3) == {}
    assert process.returncode == -9, "still there when the time was over"


def test_one_that_does_not_hear_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, DEAF)
    process = service.launch(_settings(tmp_path))
    assert service.finish(process, limit=0.1) == {}
    assert process.returncode == -9

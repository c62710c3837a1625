"""File systems that fail."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from lading.hpc.daemon import FileSystemWatch, watch_file_systems


async def test_what_answers_is_well_and_what_is_gone_is_not(tmp_path: Path) -> None:
    assert await FileSystemWatch(tmp_path).fault() == ""
    assert (
        await FileSystemWatch(tmp_path / "gone").fault()
        == f"{tmp_path / 'gone'}: No such file or directory"
    )


async def test_what_hangs_is_asked_once_and_comes_back(tmp_path: Path) -> None:
    release, asked = threading.Event(), []

    def hang(path: Path) -> None:
        asked.append(path)
        release.wait()

    one = FileSystemWatch(tmp_path, hang, patience=0.01)
    assert await one.fault() == f"{tmp_path} does not answer"
    assert await one.fault() == f"{tmp_path} does not answer"
    assert asked == [tmp_path]
    release.set()
    one.patience = 10
    while fault := await one.fault():
        assert "does not answer" in fault
        await asyncio.sleep(0)
    assert len(asked) == 2


async def test_the_first_fault_is_told_period_by_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time stands still while it waits for answers, so none is late; a period passes when the
    threads that have answered have ended.
    """
    told: list[str] = []
    others = set(threading.enumerate())
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)

    async def sleep(_: float) -> None:
        if len(told) == 2:
            raise asyncio.CancelledError
        for asking in set(threading.enumerate()) - others:
            asking.join()
        (tmp_path / "a").mkdir()

    with pytest.raises(asyncio.CancelledError):
        await watch_file_systems(lambda: (tmp_path, tmp_path / "a"), told.append, sleep=sleep)
    assert told == [f"{tmp_path / 'a'}: No such file or directory", ""]

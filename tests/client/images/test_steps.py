"""Long work on images: each of its steps is shown, and each hears that it has to end."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from lading.client.images.archive import NormalImage
from lading.client.images.from_host import this_host
from lading.client.images.python_environments import compile_modules
from lading.client.images.sources import normalise, normalise_programs
from lading.client.images.steps import ImageSteps, Report
from lading.process.cancellation import Stopped
from tests.client.images.images_on_disk import (
    LAYERS,
    oci_files,
    saved_files,
    tar_of,
    write_files,
    write_tar,
)

_ROOT: dict[str, bytes | None] = {"bin/sh": b"#!", "etc/motd": b"hi"}
Work = Callable[[Path, Report | None], Coroutine[Any, Any, NormalImage]]


def _source(write: Callable[[Path], Path]) -> Work:
    async def work(folder: Path, report: Report | None) -> NormalImage:
        path = folder.parent / "source"
        if not path.exists():
            write(path)
        return await normalise(str(path), folder, report=report)

    return work


def _write_compressed(path: Path) -> Path:
    path.write_bytes(gzip.compress(tar_of(saved_files(*LAYERS))))
    return path


async def _programs(folder: Path, report: Report | None) -> NormalImage:
    host = this_host(os.environ)
    return await normalise_programs(["true"], folder, host=host, report=report)


_WORKS = {
    "directory": _source(lambda path: write_files(path, _ROOT)),
    "tar": _source(lambda path: write_tar(path, _ROOT)),
    "compressed": _source(_write_compressed),
    "docker-save": _source(lambda path: write_files(path, saved_files(*LAYERS))),
    "oci": _source(lambda path: write_tar(path, oci_files(*LAYERS))),
    "programs": _programs,
}


class _Watch:
    """Holds the work at its report of one number until `end` is set."""

    def __init__(self, hold: int = -1) -> None:
        self.steps: list[str] = []
        self.is_held, self.end = asyncio.Event(), threading.Event()
        self._hold, self._loop = hold, asyncio.get_running_loop()

    def report(self, step: str, done: int, total: int) -> None:
        assert done <= total or total == 0
        # Later reports of a step depend on the time.
        if done:
            return
        self.steps.append(step)
        if len(self.steps) - 1 == self._hold:
            self._loop.call_soon_threadsafe(self.is_held.set)
            assert self.end.wait(30)


@pytest.mark.parametrize("name", _WORKS)
async def test_each_step_hears_that_it_has_to_end(tmp_path: Path, name: str) -> None:
    watch, whole = _Watch(), tmp_path / "whole"
    whole.mkdir()
    await _WORKS[name](whole, watch.report)
    assert watch.steps
    for number in range(len(watch.steps)):
        folder, held = tmp_path / str(number), _Watch(number)
        folder.mkdir()
        task = asyncio.create_task(_WORKS[name](folder, held.report))
        await held.is_held.wait()
        task.cancel()
        await asyncio.sleep(0)
        held.end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        # No step after it.
        assert len(held.steps) == number + 1


def test_a_file_that_is_read_hears_it() -> None:
    stopped = threading.Event()
    file = ImageSteps(stopped.is_set).reading(io.BytesIO(b"abc"))
    assert file.read(1) == b"a"
    stopped.set()
    with pytest.raises(Stopped):
        file.read(1)


@pytest.mark.parametrize(("has_to_end", "limit"), [(True, 60.0), (False, 0.0)])
def test_a_process_is_ended(has_to_end: bool, limit: float) -> None:
    steps = ImageSteps(lambda: has_to_end)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            with steps.ending(process, limit=limit):
                assert process.wait(30) < 0
        except Stopped:
            assert has_to_end
        else:
            assert not has_to_end


def test_a_compiler_is_ended(tmp_path: Path) -> None:
    module = tmp_path / "a.py"
    module.write_text("a = 1\n")
    steps = ImageSteps(lambda: True)
    with pytest.raises(Stopped):
        [*compile_modules(Path(sys.executable), [str(module)], tmp_path / "out", steps)]


def test_repeated_reports_are_few() -> None:
    told: list[int] = []
    steps = ImageSteps(report=lambda _step, done, _total: told.append(done))
    for number in range(1000):
        steps.at("counting", number, 1000)
    assert 1 <= len(told) < 500

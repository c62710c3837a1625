"""Work in threads that nobody waits for any more."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lading.process.cancellation import Stop
from lading.process.concurrency import in_thread


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(b"content")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def _open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_work_has_descriptors_of_its_own(file: int) -> None:
    before = _open()
    assert await in_thread(
        lambda stop, own: (stop(), own[0] != file, os.read(own[0], 9)), file
    ) == (
        False,
        True,
        b"content",
    )
    assert _open() == before


async def test_an_error_is_passed_on(file: int) -> None:
    before = _open()
    with pytest.raises(IsADirectoryError):
        await in_thread(lambda stop, own: os.open("/", os.O_WRONLY), file)
    assert _open() == before


async def test_work_hears_that_nobody_waits_and_keeps_its_descriptors_until_then(file: int) -> None:
    begun, ended, read = threading.Event(), threading.Event(), list[bytes]()

    def work(stop: Stop, own: tuple[int, ...]) -> None:
        begun.set()
        while not stop():
            pass
        read.append(os.pread(own[0], 9, 0))
        ended.set()

    before = _open()
    task = asyncio.create_task(in_thread(work, file))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(ended.wait)
    assert read == [b"content"]
    while _open() != before:
        await asyncio.sleep(0)


async def test_work_that_was_not_begun_never_is(file: int) -> None:
    before, done, gate = _open(), list[int](), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        occupied = asyncio.ensure_future(asyncio.to_thread(gate.wait))
        task = asyncio.create_task(in_thread(lambda stop, own: done.append(1), file))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert _open() == before
        gate.set()
        await occupied
    assert done == []


async def test_work_that_writes_is_waited_for(file: int) -> None:
    begun, ended = threading.Event(), list[bool]()

    def work(stop: Stop, _: tuple[int, ...]) -> None:
        begun.set()
        while not stop():
            pass
        ended.append(True)
        raise OSError

    task = asyncio.create_task(in_thread(work, file, is_waited_for=True))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
    assert (
        await in_thread(lambda stop, own: os.pread(own[0], 3, 0), file, is_waited_for=True)
        == b"con"
    )

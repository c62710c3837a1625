from __future__ import annotations

import ctypes
import errno
import mmap
import os
import threading
from pathlib import Path

import pytest

from lading.core.containers.disk_space import Amount
from lading.supervisor.limits.open_files import held_open as held
from tests.reality import need_root

KIB = 1 << 10


def make(path: Path, size: int) -> Path:
    path.write_bytes(b"x" * size)
    return path


def test_files_without_a_name_are_found(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    before = held([os.getpid()]).get(device, Amount())
    opened = make(tmp_path / "opened", 64 * KIB).open("rb")
    with make(tmp_path / "mapped", 64 * KIB).open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    (tmp_path / "opened").unlink()
    (tmp_path / "mapped").unlink()
    found = held([os.getpid(), 1 << 30])[device] - before
    opened.close()
    mapped.close()
    assert found.files == (2 if os.geteuid() == 0 else found.files)
    assert found.size >= 64 * KIB


def test_a_thread_with_descriptors_of_its_own_hides_no_file(tmp_path: Path) -> None:
    need_root()
    device, opened, measured = tmp_path.stat().st_dev, threading.Event(), threading.Event()

    def hide() -> None:
        # CLONE_FILES of unshare(2), for this thread alone.
        ctypes.CDLL(None).unshare(0x400)
        with make(tmp_path / "hidden", 64 * KIB).open("rb"):
            (tmp_path / "hidden").unlink()
            opened.set()
            measured.wait()

    before = held([os.getpid()]).get(device, Amount())
    thread = threading.Thread(target=hide)
    thread.start()
    opened.wait()
    found = held([os.getpid()]).get(device, Amount()) - before
    measured.set()
    thread.join()
    assert (found.files, found.size >= 64 * KIB) == (1, True)


def test_more_open_files_than_are_looked_at() -> None:
    with pytest.raises(OSError, match="more than 2 files") as caught:
        held([os.getpid()], most=2)
    assert caught.value.errno == errno.EMFILE


def test_threads_that_share_their_descriptors_count_once() -> None:
    ended = threading.Event()
    threads = [threading.Thread(target=ended.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    own = sum(len(list(Path("/proc/self", name).iterdir())) for name in ("fd", "map_files"))
    try:
        held([os.getpid()], most=2 * own)
    finally:
        ended.set()
        for thread in threads:
            thread.join()

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.client.caches import content_caches
from lading.client.caches.content_caches import BlockFiles, Fetch
from lading.core.errors import NotFound

HOLDER = """
import asyncio, os, sys
from pathlib import Path
from lading.client.caches.content_caches import BlockFiles

async def fetch(locator, descriptor):
    os.write(descriptor, b"half")
    print("fetching", flush=True)
    await asyncio.Event().wait()

asyncio.run(BlockFiles(Path(sys.argv[1]), 1 << 20, fetch=fetch).open(sys.argv[2]))
"""


class Store:
    """Blocks to fetch, and how often that was done; `fault` is raised instead."""

    def __init__(self) -> None:
        self.blocks: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.fault: BaseException | None = None

    def put(self, data: bytes) -> str:
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        self.blocks[digest] = data
        return f"{digest}+{len(data)}"

    async def __call__(self, locator: str, descriptor: int) -> None:
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        self.fetched.append(locator)
        os.pwrite(descriptor, self.blocks[locator[:32]], 0)


@pytest.fixture
def store() -> Store:
    return Store()


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


def _files(root: Path, store: Fetch, limit: int = 1 << 20) -> BlockFiles:
    return BlockFiles(root / "blocks", limit, fetch=store, sleep=_at_once)


async def _read(files: BlockFiles, locator: str) -> bytes:
    descriptor = await files.open(locator)
    try:
        return os.pread(descriptor, 1 << 20, 0)
    finally:
        os.close(descriptor)


def _kept(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "blocks").glob("???/*"))


async def test_a_block_is_fetched_once_for_all_processes(tmp_path: Path, store: Store) -> None:
    locator = store.put(b"data")
    one, other = _files(tmp_path, store), _files(tmp_path, store)
    assert [await _read(one, locator), await _read(one, locator), await _read(other, locator)] == [
        b"data"
    ] * 3
    assert store.fetched == [locator]
    assert (one.counts.fetched, one.counts.hits, other.counts.hits) == (1, 1, 1)
    assert one.holds(locator)


async def test_who_asks_at_the_same_time_waits_for_the_first(tmp_path: Path, store: Store) -> None:
    locator = store.put(b"data" * 1000)
    readers = [_files(tmp_path, store) for _ in range(4)]
    assert await asyncio.gather(*(_read(one, locator) for one in readers)) == [b"data" * 1000] * 4
    assert store.fetched == [locator]
    assert list((tmp_path / "blocks").glob("*/*.part")) == []


async def test_a_damaged_copy_is_fetched_again(tmp_path: Path, store: Store) -> None:
    locator = store.put(b"right")
    await _read(_files(tmp_path, store), locator)
    path = tmp_path / "blocks" / locator[:3] / locator[:32]
    path.write_bytes(b"wrong")
    files = _files(tmp_path, store)
    assert await _read(files, locator) == b"right"
    assert (files.counts.damaged, len(store.fetched)) == (1, 2)


async def test_the_limit_holds_and_the_oldest_go(tmp_path: Path, store: Store) -> None:
    files = _files(tmp_path, store, limit=100_000)
    locators = [store.put(bytes([number]) * 20_000) for number in range(12)]
    for number, locator in enumerate(locators):
        await _read(files, locator)
        os.utime(tmp_path / "blocks" / locator[:3] / locator[:32], (number, number))
        assert _kept(tmp_path) <= 100_000
    assert files.holds(locators[-1])
    assert not files.holds(locators[0])


async def test_the_limit_holds_for_several_at_a_time(tmp_path: Path, store: Store) -> None:
    readers = [_files(tmp_path, store, limit=100_000) for _ in range(4)]
    locators = [store.put(bytes([number]) * 20_000) for number in range(40)]
    await asyncio.gather(*(_read(readers[number % 4], one) for number, one in enumerate(locators)))
    assert 0 < _kept(tmp_path) <= 100_000


async def test_a_block_larger_than_the_limit_is_given_and_not_kept(
    tmp_path: Path, store: Store
) -> None:
    files = _files(tmp_path, store, limit=1000)
    assert await _read(files, store.put(b"x" * 5000)) == b"x" * 5000
    assert (_kept(tmp_path), files.counts.not_kept) == (0, 1)


async def test_on_a_full_disk_blocks_are_given_and_not_kept(tmp_path: Path, store: Store) -> None:
    locator = store.put(b"data")

    async def full(locator: str, descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(tmp_path):
            raise OSError(errno.ENOSPC, "no room")
        await store(locator, descriptor)

    files = _files(tmp_path, full)
    assert await _read(files, locator) == b"data"
    assert (_kept(tmp_path), files.counts.not_kept) == (0, 1)


async def test_a_failed_fetch_leaves_nothing(tmp_path: Path, store: Store) -> None:
    locator, files = store.put(b"data"), _files(tmp_path, store)
    store.fault = NotFound("no such block")
    with pytest.raises(NotFound, match="no such block"):
        await files.open(locator)
    assert list((tmp_path / "blocks").glob("???/*")) == []
    assert int((tmp_path / "blocks" / "ledger").read_text()) == 0
    store.fault = None
    assert await _read(files, locator) == b"data"


async def test_other_errors_of_the_disk_are_the_callers(tmp_path: Path, store: Store) -> None:
    locator, files = store.put(b"data"), _files(tmp_path, store)
    store.fault = OSError(errno.EIO, "broken")
    with pytest.raises(OSError, match="broken"):
        await files.open(locator)


async def test_what_a_killed_process_left_is_taken_over(tmp_path: Path, store: Store) -> None:
    locator = store.put(b"data")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "blocks"), locator],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "fetching\n"
    waiting = asyncio.create_task(_read(_files(tmp_path, store), locator))
    done, _ = await asyncio.wait((waiting,), timeout=0.2)
    assert not done
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert await waiting == b"data"


async def test_what_a_killed_process_left_is_removed_when_room_is_needed(
    tmp_path: Path, store: Store
) -> None:
    part = tmp_path / "blocks" / "abc" / f"{'abc'.ljust(32, '0')}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 90_000)
    files = _files(tmp_path, store, limit=100_000)
    await _read(files, store.put(b"y" * 50_000))
    assert not part.exists()
    assert _kept(tmp_path) == 50_000


class Lender:
    """Lends the files of a directory; `lent` are the locators."""

    def __init__(self, root: Path) -> None:
        self.root = root / "lent"
        self.root.mkdir()
        self.lent: list[str] = []

    def put(self, data: bytes) -> str:
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        (self.root / digest).write_bytes(data)
        return f"{digest}+{len(data)}"

    async def __call__(self, locator: str) -> int | None:
        path = self.root / locator[:32]
        if not path.exists():
            return None
        self.lent.append(locator)
        return os.open(path, os.O_RDONLY)


def _borrowing(
    root: Path, store: Store, md5: Callable[[int], str] = content_caches.md5_of_file
) -> tuple[BlockFiles, Lender]:
    lender = Lender(root)
    files = BlockFiles(
        root / "blocks", 1 << 20, fetch=store, borrow=lender, sleep=_at_once, md5=md5
    )
    return files, lender


async def test_what_is_lent_is_verified_and_not_kept(tmp_path: Path, store: Store) -> None:
    files, lender = _borrowing(tmp_path, store)
    locator = lender.put(b"data")
    assert [await _read(files, locator), await _read(files, locator)] == [b"data"] * 2
    assert (files.counts.lent, store.fetched, _kept(tmp_path)) == (2, [], 0)
    other = store.put(b"other")
    assert await _read(files, other) == b"other"
    assert (store.fetched, lender.lent) == ([other], [locator] * 2)


@pytest.mark.parametrize("wrong", [b"dbta", b"dat", b"data and more", b""])
async def test_damage_that_is_lent_is_never_given(
    tmp_path: Path, store: Store, wrong: bytes
) -> None:
    files, lender = _borrowing(tmp_path, store)
    locator = store.put(b"data")
    (lender.root / locator[:32]).write_bytes(wrong)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert await _read(files, locator) == b"data"
    assert (files.counts.lent, files.counts.damaged, store.fetched) == (0, 1, [locator])
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_what_cannot_be_read_is_fetched(tmp_path: Path, store: Store) -> None:
    files, lender = _borrowing(tmp_path, store)
    locator = store.put(bytes(4096))
    (lender.root / locator[:32]).mkdir()
    if (lender.root / locator[:32]).stat().st_size != 4096:
        locator = store.put(bytes((lender.root / locator[:32]).stat().st_size))
        (lender.root / locator[:32]).mkdir(exist_ok=True)
    await _read(files, locator)
    assert (files.counts.lent, store.fetched) == (0, [locator])


async def test_what_was_lent_and_has_changed_is_not_sound(tmp_path: Path, store: Store) -> None:
    files, lender = _borrowing(tmp_path, store)
    locator, own = lender.put(b"data"), store.put(b"own")
    descriptor, kept = await files.open(locator), await files.open(own)
    assert files.is_sound(descriptor)
    assert files.is_sound(kept)
    path = lender.root / locator[:32]
    path.write_bytes(b"dbta")
    os.utime(path, (1, 1))
    assert not files.is_sound(descriptor)
    assert files.is_sound(kept)
    os.close(descriptor)
    os.close(kept)
    # Put again as it was: it is hashed once more.
    path.write_bytes(b"data")
    os.utime(path, (2, 2))
    assert await _read(files, locator) == b"data"


async def test_who_gives_up_while_a_loan_is_verified_leaves_nothing_open(
    tmp_path: Path, store: Store
) -> None:
    begun, go_on, done = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(descriptor: int) -> str:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(60)
        try:
            return content_caches.md5_of_file(descriptor)
        finally:
            done.set()

    files, lender = _borrowing(tmp_path, store, md5=slow)
    locator = lender.put(b"data")
    opening = asyncio.create_task(files.open(locator))
    await begun.wait()
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    go_on.set()
    await asyncio.to_thread(done.wait, 60)
    await asyncio.get_running_loop().shutdown_default_executor()
    assert _open_below(lender.root) == []


def _open_below(root: Path) -> list[str]:
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(path.readlink()))
    return [path for path in found if path.startswith(str(root))]

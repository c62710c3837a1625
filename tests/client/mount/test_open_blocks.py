from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from lading.client.caches.content_caches import BlockFiles
from lading.client.mount.open_blocks import LoopBridge, OpenBlocks, OpenFileReader
from lading.core.data.filetree import File, Segment
from lading.core.errors import Corrupt, NotFound, Unauthenticated, Unavailable


class Store:
    """Blocks; `asked` are the locators of all fetches, `gate` holds them back."""

    def __init__(self) -> None:
        self.blocks: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.expired: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    def put(self, data: bytes) -> str:
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        self.blocks[digest] = data
        return f"{digest}+{len(data)}"

    async def __call__(self, locator: str, descriptor: int) -> None:
        self.asked.append(locator)
        await self.gate.wait()
        if locator in self.expired:
            raise Unauthenticated("expired")
        if locator[:32] not in self.blocks:
            raise NotFound("no such block")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(self.blocks[locator[:32]])


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def blocks(tmp_path: Path, store: Store) -> AsyncGenerator[OpenBlocks]:
    files = BlockFiles(tmp_path / "blocks", 1 << 30, fetch=store)
    opened = OpenBlocks(files, LoopBridge(asyncio.get_running_loop(), 5.0), keep=2)
    yield opened
    await opened.close()


def _open_below(root: Path) -> list[str]:
    """Files below a directory that this process has open."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        # The descriptor of the listing itself is closed by now.
        with contextlib.suppress(OSError):
            found.append(str(path.readlink()))
    return [path for path in found if path.startswith(str(root))]


async def _read(reader: OpenFileReader, blocks: OpenBlocks, offset: int, size: int) -> bytes:
    target = bytearray(size)
    done = await asyncio.to_thread(reader.read_into, memoryview(target), offset, blocks)
    return bytes(target[:done])


def _file(*pieces: tuple[str, int, int]) -> File:
    return File(tuple(Segment(*piece) for piece in pieces))


async def test_any_part_of_a_file_of_several_segments(store: Store, blocks: OpenBlocks) -> None:
    one, two = store.put(b"0123456789"), store.put(b"abcdefghij")
    reader = OpenFileReader(_file((one, 2, 5), (two, 0, 3), (one, 0, 1), (two, 9, 1)))
    whole = b"23456abc0j"
    assert reader.size == len(whole)
    for offset in range(len(whole) + 1):
        for size in range(1, len(whole) + 3):
            assert await _read(reader, blocks, offset, size) == whole[offset : offset + size]
    assert len(store.asked) == 2


async def test_an_empty_file(blocks: OpenBlocks) -> None:
    assert await _read(OpenFileReader(_file()), blocks, 0, 10) == b""


async def test_blocks_beyond_the_number_kept_are_opened_again(
    store: Store, blocks: OpenBlocks, tmp_path: Path
) -> None:
    locators = [store.put(bytes([number]) * 10) for number in range(6)]
    for _ in range(2):
        for number, locator in enumerate(locators):
            assert (
                await _read(OpenFileReader(_file((locator, 0, 10))), blocks, 0, 10)
                == bytes([number]) * 10
            )
    assert len(_open_below(tmp_path)) <= 3
    assert len(store.asked) == 6


async def test_who_reads_on_gets_the_next_blocks_early(store: Store, blocks: OpenBlocks) -> None:
    locators = [store.put(bytes([number]) * 200_000) for number in range(5)]
    reader = OpenFileReader(_file(*((one, 0, 200_000) for one in locators)))
    for read, known in ((0, 3), (200_000, 4)):
        await _read(reader, blocks, read, 200_000)
        async with asyncio.timeout(180):
            while len(store.asked) < known:
                await asyncio.sleep(0)
        await blocks.settle()
        assert sorted(store.asked) == sorted(locators[:known])


async def test_who_jumps_about_gets_what_he_asks_for_alone(
    store: Store, blocks: OpenBlocks
) -> None:
    locators = [store.put(bytes([number]) * 3_000_000) for number in range(5)]
    reader = OpenFileReader(_file(*((one, 0, 3_000_000) for one in locators)))
    for number in (3, 1, 4):
        await _read(reader, blocks, number * 3_000_000 + 1_500_000, 100_000)
    assert store.asked == [locators[3], locators[1], locators[4]]


async def test_an_expired_signature_is_renewed(store: Store, blocks: OpenBlocks) -> None:
    locator = store.put(b"data")
    old, fresh = f"{locator}+Aold@1", f"{locator}+Afresh@2"
    store.expired.add(old)

    async def renew(locator: str) -> str:
        return fresh

    assert await _read(OpenFileReader(_file((old, 0, 4)), renew), blocks, 0, 4) == b"data"
    assert store.asked == [old, fresh]


async def test_an_expired_signature_that_nobody_renews(store: Store, blocks: OpenBlocks) -> None:
    locator = f"{store.put(b'data')}+Aold@1"
    store.expired.add(locator)
    with pytest.raises(Unauthenticated):
        await _read(OpenFileReader(_file((locator, 0, 4))), blocks, 0, 4)


async def test_a_block_that_is_gone_says_so_each_time(store: Store, blocks: OpenBlocks) -> None:
    reader = OpenFileReader(_file((f"{'0' * 32}+4", 0, 4)))
    for _ in range(2):
        with pytest.raises(NotFound, match="no such block"):
            await _read(reader, blocks, 0, 4)


async def test_a_failed_read_ahead_is_nobodys(store: Store, blocks: OpenBlocks) -> None:
    first, last = store.put(b"1" * 200_000), store.put(b"3" * 10)
    reader = OpenFileReader(_file((first, 0, 200_000), (f"{'0' * 32}+4", 0, 4), (last, 0, 10)))
    assert len(await _read(reader, blocks, 0, 200_000)) == 200_000
    await blocks.settle()
    assert await _read(reader, blocks, 200_004, 10) == b"3" * 10


async def test_a_file_that_reaches_beyond_its_block(store: Store, blocks: OpenBlocks) -> None:
    with pytest.raises(Corrupt, match="reaches beyond this block"):
        await _read(OpenFileReader(_file((store.put(b"data"), 2, 10))), blocks, 0, 12)


async def test_readers_of_one_block_wait_for_one_fetch(store: Store, blocks: OpenBlocks) -> None:
    locator = store.put(b"data")
    store.gate.clear()
    readers = [
        asyncio.create_task(_read(OpenFileReader(_file((locator, 0, 4))), blocks, 0, 4))
        for _ in range(4)
    ]
    while not store.asked:
        await asyncio.sleep(0)
    store.gate.set()
    assert await asyncio.gather(*readers) == [b"data"] * 4
    assert store.asked == [locator]


async def test_a_silent_server_is_given_up(tmp_path: Path, store: Store) -> None:
    files = BlockFiles(tmp_path / "blocks", 1 << 30, fetch=store)
    blocks = OpenBlocks(files, LoopBridge(asyncio.get_running_loop(), 0.05))
    store.gate.clear()
    with pytest.raises(Unavailable, match="no answer within"):
        await _read(OpenFileReader(_file((store.put(b"data"), 0, 4))), blocks, 0, 4)
    await blocks.close()


def test_a_loop_that_is_gone() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    bridge = LoopBridge(loop, 1.0)
    failures: list[BaseException] = []

    async def work() -> None:
        raise AssertionError("not reached")

    def call() -> None:
        bridge.send(work())
        try:
            bridge.call(work())
        except Unavailable as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert [str(one) for one in failures] == ["the mount is ending"]


class Lender:
    """Lends files, as a server on this machine does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lent = 0

    async def __call__(self, locator: str) -> int | None:
        self.lent += 1
        return os.open(self.root / locator[:32], os.O_RDONLY)


async def test_a_lent_file_that_changes_under_a_reader_is_never_given_as_it_is(
    tmp_path: Path, store: Store
) -> None:
    lender, locator = Lender(tmp_path), store.put(b"data")
    path = tmp_path / locator[:32]
    path.write_bytes(b"data")
    files = BlockFiles(tmp_path / "blocks", 1 << 30, fetch=store, borrow=lender)
    blocks = OpenBlocks(files, LoopBridge(asyncio.get_running_loop(), 60.0))
    reader = OpenFileReader(_file((locator, 0, 4)))
    assert [await _read(reader, blocks, 0, 4), await _read(reader, blocks, 1, 2)] == [
        b"data",
        b"at",
    ]
    assert (lender.lent, store.asked) == (1, [])
    path.write_bytes(b"dbta")
    os.utime(path, (1, 1))
    assert await _read(reader, blocks, 0, 4) == b"data"
    assert (lender.lent, store.asked, files.counts.damaged) == (2, [locator], 1)
    await blocks.close()


async def test_others_who_read_it_then_end_first(tmp_path: Path, store: Store) -> None:
    lender, locator = Lender(tmp_path), store.put(b"data")
    (tmp_path / locator[:32]).write_bytes(b"data")
    files = BlockFiles(tmp_path / "blocks", 1 << 30, fetch=store, borrow=lender)
    blocks = OpenBlocks(files, LoopBridge(asyncio.get_running_loop(), 60.0))
    await blocks.load(locator, None)
    with blocks.use(locator, None) as one:
        blocks.forget(locator[:32], one)
        blocks.forget(locator[:32], one)
        assert os.pread(one.descriptor, 4, 0) == b"data"
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(one.descriptor)
    await blocks.close()


async def test_a_disk_that_cannot_be_read_names_the_block(
    blocks: OpenBlocks, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    locator = store.put(b"data")
    await blocks.load(locator, None)
    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(
        Unavailable, match=f"{locator[:32]}: its file cannot be read: Input/output error"
    ):
        await _read(OpenFileReader(_file((locator, 0, 4))), blocks, 0, 4)

"""Uploads: what is read, hashed and sent, and what is not any more."""

from __future__ import annotations

import asyncio
import os
import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from lading.client.blocks import BlockClient
from lading.client.files.collections import CollectionWriter
from lading.client.files.listing import LinkPolicy
from lading.client.files.upload_journal import UploadJournal
from lading.client.files.uploads import Upload
from lading.core.data import filetree, manifest
from lading.core.errors import Full, Invalid, Malformed
from lading.core.ids import EMPTY_PDH
from lading.testing.blocks import BlockStore, MemoryVolume


class _Counting(BlockClient):
    """Counts what is sent; fails after so many blocks."""

    def __init__(self, client: BlockClient, *, most: int = 1000) -> None:
        self._client = client
        self._most = most
        self.sent: list[str] = []

    async def put(self, data: bytes | bytearray, digest: str = "") -> str:
        return self._note(await self._client.put(data, digest))

    async def put_part(self, descriptor: int, start: int, length: int, digest: str = "") -> str:
        return self._note(await self._client.put_part(descriptor, start, length, digest))

    def _note(self, locator: str) -> str:
        if len(self.sent) >= self._most:
            raise Full("the volume is full")
        self.sent.append(locator)
        return locator


def _later() -> int:
    return time.time_ns() + 10**9


def _fill(root: Path, count: int = 8) -> dict[str, Path]:
    root.mkdir()
    for number in range(count):
        (root / f"{number}").write_bytes(bytes([number]) * 40)
    (root / "large").write_bytes(bytes(range(250)))
    (root / "empty").mkdir()
    (root / "zero").write_bytes(b"")
    return {"": root}


async def _put(blocks: BlockClient, sources: Mapping[str, Path], journal: Path) -> str:
    with (
        UploadJournal(journal) as kept,
        Upload(sources, journal=kept, clock=_later, pack=100) as upload,
    ):
        await upload.look()
        pdh = await upload.hash()
        text = "".join(await upload.send(blocks))
        assert manifest.portable_data_hash(text) == pdh
        return text


async def test_what_was_sent_is_not_sent_again(tmp_path: Path) -> None:
    sources, store = _fill(tmp_path / "in"), BlockStore()
    cut = _Counting(store.client, most=3)
    with pytest.raises(Full):
        await _put(cut, sources, tmp_path / "j")
    rest = _Counting(store.client)
    text = await _put(rest, sources, tmp_path / "j")
    assert (len(cut.sent), len(rest.sent)) == (3, 4)
    again = _Counting(store.client)
    assert await _put(again, sources, tmp_path / "j") == text
    assert again.sent == []
    whole = await _put(BlockStore().client, sources, tmp_path / "other")
    assert manifest.portable_data_hash(whole) == manifest.portable_data_hash(text)
    assert manifest.counts(text) == (10, 570)


async def test_blocks_that_are_stored_elsewhere_are_not_sent(tmp_path: Path) -> None:
    sources, store = _fill(tmp_path / "in"), BlockStore()
    text = await _put(store.client, sources, tmp_path / "j")
    counting = _Counting(store.client)
    known = {filetree.bare(locator): locator for locator in manifest.locators(text)}
    with Upload(sources, pack=100) as upload:
        await upload.look()
        await upload.hash()
        assert "".join(await upload.send(counting, stored=known)) == text
    assert counting.sent == []


async def test_files_that_have_not_changed_are_not_read_again(tmp_path: Path) -> None:
    sources = _fill(tmp_path / "in")
    await _put(BlockStore().client, sources, tmp_path / "j")
    target = tmp_path / "in" / "0"
    before = target.stat()
    with (
        UploadJournal(tmp_path / "j") as kept,
        Upload(sources, journal=kept, clock=_later, pack=100) as upload,
    ):
        await upload.look()
        assert len(kept.blocks) == len(upload.keys) == 7
        old = await upload.hash()
        # Another content with the same size and time of modification: the time of change tells.
        target.write_bytes(b"x" * 40)
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
        await upload.look()
        assert sum(key in kept.blocks for key in upload.keys) == 6
        assert await upload.hash() != old


async def test_files_that_were_just_written_are_read_again(tmp_path: Path) -> None:
    sources = _fill(tmp_path / "in")
    now = (tmp_path / "in" / "0").stat().st_mtime_ns
    with (
        UploadJournal(tmp_path / "j") as kept,
        Upload(sources, journal=kept, clock=lambda: now) as upload,
    ):
        await upload.look()
        await upload.hash()
        assert kept.blocks == {}


async def test_signatures_that_end_soon_are_not_used(tmp_path: Path) -> None:
    sources, store = _fill(tmp_path / "in"), BlockStore()
    await _put(store.client, sources, tmp_path / "j")
    counting = _Counting(store.client)
    with (
        UploadJournal(tmp_path / "j") as kept,
        Upload(sources, journal=kept, clock=lambda: 2**32 * 10**9, pack=100) as upload,
    ):
        await upload.look()
        await upload.hash()
        await upload.send(counting)
    assert len(counting.sent) == 7


async def test_equal_blocks_are_sent_once(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(100 * 50)
    counting = _Counting(BlockStore().client)
    await _put(counting, {"sparse": tmp_path / "sparse"}, tmp_path / "j")
    assert len(counting.sent) <= 2


@pytest.mark.parametrize("name", ["0", "large"])
@pytest.mark.parametrize("content", [b"x", b"y" * 40, b"z" * 250, None])
async def test_files_that_change_or_vanish_while_they_are_read(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    sources = _fill(tmp_path / "in")
    with Upload(sources, pack=100) as upload:
        await upload.look()
        _change(tmp_path / "in" / name, content)
        with pytest.raises(
            Invalid, match=f"{name}: (changed while it was read|cannot be read: No such file)"
        ):
            await upload.hash()


@pytest.mark.parametrize("content", [b"x", b"y" * 40, b"z" * 250, None])
async def test_files_that_change_after_they_were_hashed(
    tmp_path: Path, content: bytes | None
) -> None:
    sources = _fill(tmp_path / "in")
    with Upload(sources, pack=100) as upload:
        await upload.look()
        await upload.hash()
        _change(tmp_path / "in" / "large", content)
        with pytest.raises(
            Invalid, match=r"large: (changed while it was read|cannot be read: No such file)"
        ):
            await upload.send(BlockStore().client)


async def test_a_pipe_in_place_of_a_file_does_not_stop_us(tmp_path: Path) -> None:
    sources = _fill(tmp_path / "in")
    with Upload(sources) as upload:
        await upload.look()
        (tmp_path / "in" / "0").unlink()
        os.mkfifo(tmp_path / "in" / "0")
        with pytest.raises(Invalid, match="0: cannot be read"):
            await upload.hash()


async def test_names_that_are_not_utf_8_are_spelled(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("")
    with Upload({"": tmp_path}) as upload:
        await upload.look()
        assert len(upload.remarks) == 1
        assert upload.remarks[0].endswith("is stored as %raw-%FF")


async def test_the_blocks_are_those_of_the_writer(tmp_path: Path) -> None:
    sources = _fill(tmp_path / "in")
    (tmp_path / "in" / "large").unlink()
    text = await _put(BlockStore(signing_key="").client, sources, tmp_path / "j")
    async with CollectionWriter(BlockStore(signing_key="").client, pack=100) as writer:
        writer.add_directory("empty")
        for name in sorted(path.name for path in (tmp_path / "in").iterdir() if path.is_file()):
            await writer.add_bytes(name, (tmp_path / "in" / name).read_bytes())
        assert await writer.finish() == text


async def test_an_upload_that_is_given_up_leaves_nothing_running(tmp_path: Path) -> None:
    sources = _fill(tmp_path / "in")
    volume = MemoryVolume(capacity=10)
    with pytest.raises(Full):
        await _put(BlockStore(volume).client, sources, tmp_path / "j")
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def _change(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
        os.utime(path, (1, 1))


async def test_many_files_take_little_memory(tmp_path: Path) -> None:
    count = 2000
    for number in range(count):
        folder = tmp_path / "in" / f"{number // 200}"
        if number % 200 == 0:
            folder.mkdir(parents=True)
        (folder / f"{number}").write_bytes(b"x")
    with Upload({"": tmp_path / "in"}, pack=1 << 10, most_bytes=0) as upload:
        blocks = BlockStore().client
        tracemalloc.start()
        try:
            await upload.look()
            pdh = await upload.hash()
            digest = manifest.Digest()
            for piece in await upload.send(blocks):
                digest.update(piece)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert str(digest) == pdh
    assert most < 400_000, most


async def test_packed_blocks_have_little_room_together(tmp_path: Path) -> None:
    sources, blocks = _fill(tmp_path / "in", 20), _Weighing(BlockStore().client)
    with Upload(sources, pack=100, room=150) as upload:
        await upload.look()
        await upload.hash()
        await upload.send(blocks)
    assert (blocks.count, blocks.most) == (13, 80)


class _Weighing(BlockClient):
    """Knows how many bytes of blocks there were at a time."""

    def __init__(self, client: BlockClient) -> None:
        self._client = client
        self._now = self.most = self.count = 0

    async def put(self, data: bytes | bytearray, digest: str = "") -> str:
        self.count += 1
        self._now += len(data)
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        locator = await self._client.put(data, digest)
        self._now -= len(data)
        return locator

    async def put_part(self, descriptor: int, start: int, length: int, digest: str = "") -> str:
        self.count += 1
        return await self._client.put_part(descriptor, start, length, digest)


async def test_an_upload_of_which_all_is_left_out_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with Upload({"pipe": tmp_path / "pipe"}, links=LinkPolicy.SKIP) as upload:
        await upload.look()
        assert await upload.hash() == EMPTY_PDH
        assert upload.remarks[0].startswith("left out: ")


@pytest.mark.parametrize("name", ["0", "large"])
async def test_a_wrong_hash_in_the_journal_stores_nothing(tmp_path: Path, name: str) -> None:
    sources, store = {name: _fill(tmp_path / "in")[""] / name}, BlockStore()
    with UploadJournal(tmp_path / "j") as kept, Upload(sources, journal=kept, pack=100) as upload:
        await upload.look()
        for key in upload.keys:
            kept.note_block(key, f"{'0' * 32}+40")
        await upload.look()
        await upload.hash()
        with pytest.raises(Invalid, match="changed while it was read"):
            await upload.send(store.client)
    assert [block async for block in store.volume.index()] == []


async def test_what_a_store_refuses_is_told_as_it_said_it(tmp_path: Path) -> None:
    class Refusing(BlockClient):
        """Cannot read any request."""

        async def put(self, data: bytes | bytearray, digest: str = "") -> str:
            raise Malformed("not understood")

        async def put_part(self, descriptor: int, start: int, length: int, digest: str = "") -> str:
            raise Malformed("not understood")

    for name in ("0", "large"):
        with Upload({name: _fill(tmp_path / f"in {name}")[""] / name}, pack=100) as upload:
            await upload.look()
            await upload.hash()
            with pytest.raises(Malformed, match="not understood"):
                await upload.send(Refusing(BlockStore().transport, ""))

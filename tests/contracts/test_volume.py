"""What every block volume keeps to, fakes included."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.blobs.volume import DirectoryVolume, Volume
from lading.core.errors import Corrupt, NotFound
from lading.testing.volume import MemoryVolume

Rot = Callable[[str], None]


def _hash(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _rot_file(root: Path, hash: str) -> None:
    path = root / hash[:3] / hash
    path.write_bytes(b"!" + path.read_bytes()[1:])


@pytest.fixture(params=["directory", "memory"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Volume, Rot]:
    if request.param == "memory":
        memory = MemoryVolume()
        return memory, memory.rot
    return DirectoryVolume(tmp_path / "blocks"), lambda hash: _rot_file(tmp_path / "blocks", hash)


@pytest.fixture
def volume(kept: tuple[Volume, Rot]) -> Volume:
    return kept[0]


@pytest.mark.parametrize("data", [b"foo", b"", b"x" * 300_000], ids=["small", "empty", "large"])
async def test_what_was_put_is_got(volume: Volume, data: bytes) -> None:
    await volume.put(_hash(data), bytearray(data))
    assert await volume.get(_hash(data)) == data


async def test_an_absent_block_is_not_found(volume: Volume) -> None:
    for look in (volume.get, volume.head):
        with pytest.raises(NotFound):
            await look(_hash(b"absent"))


async def test_a_damaged_block_is_never_got(kept: tuple[Volume, Rot]) -> None:
    volume, rot = kept
    await volume.put(_hash(b"foo"), b"foo")
    rot(_hash(b"foo"))
    with pytest.raises(Corrupt):
        await volume.get(_hash(b"foo"))


async def test_putting_again_mends_a_damaged_block(kept: tuple[Volume, Rot]) -> None:
    volume, rot = kept
    await volume.put(_hash(b"foo"), b"foo")
    rot(_hash(b"foo"))
    await volume.put(_hash(b"foo"), b"foo")
    assert await volume.get(_hash(b"foo")) == b"foo"


async def test_a_second_put_counts_as_put_now(volume: Volume) -> None:
    await volume.put(_hash(b"foo"), b"foo")
    first = await volume.head(_hash(b"foo"))
    await volume.put(_hash(b"foo"), b"foo")
    second = await volume.head(_hash(b"foo"))
    assert first.size == second.size == 3
    assert second.mtime_ns >= first.mtime_ns


async def test_the_same_block_put_by_many_at_once(volume: Volume) -> None:
    await asyncio.gather(*(volume.put(_hash(b"foo"), b"foo") for _ in range(20)))
    assert [stored.hash async for stored in volume.index()] == [_hash(b"foo")]


async def test_the_index_is_sorted_and_keeps_to_its_prefix(volume: Volume) -> None:
    hashes = sorted(_hash(str(number).encode()) for number in range(50))
    for number in range(50):
        await volume.put(_hash(str(number).encode()), str(number).encode())
    assert [stored.hash async for stored in volume.index()] == hashes
    for prefix in ("c", "c4c", hashes[3], "fffff"):
        listed = [stored.hash async for stored in volume.index(prefix)]
        assert listed == [hash for hash in hashes if hash.startswith(prefix)]


async def test_free_space_is_a_number(volume: Volume) -> None:
    assert await volume.free() > 1 << 20

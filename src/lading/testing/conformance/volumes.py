"""Conformance suite of block volumes (`lading.blobs.volume.Volume`).

A test module subclasses `VolumeSuite` and gives the fixture `kept`: an empty volume, and a function
that damages the block of a hash where the volume has stored it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress

import pytest

from lading.blobs.volume import Volume
from lading.core.errors import Conflict, Corrupt, NotFound

Rot = Callable[[str], None]


def _hash(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


class VolumeSuite:
    """The promises of every volume."""

    @pytest.fixture
    def volume(self, kept: tuple[Volume, Rot]) -> Volume:
        """The volume under test."""
        return kept[0]

    @pytest.mark.parametrize("data", [b"foo", b"", b"x" * 300_000], ids=["small", "empty", "large"])
    async def test_what_was_put_is_got(self, volume: Volume, data: bytes) -> None:
        await volume.put(_hash(data), bytearray(data))
        assert await volume.get(_hash(data)) == data

    async def test_an_absent_block_is_not_found(self, volume: Volume) -> None:
        for look in (volume.get, volume.head):
            with pytest.raises(NotFound):
                await look(_hash(b"absent"))

    async def test_a_damaged_block_is_never_got(self, kept: tuple[Volume, Rot]) -> None:
        volume, rot = kept
        await volume.put(_hash(b"foo"), b"foo")
        rot(_hash(b"foo"))
        with pytest.raises(Corrupt):
            await volume.get(_hash(b"foo"))

    async def test_putting_again_mends_a_damaged_block(self, kept: tuple[Volume, Rot]) -> None:
        volume, rot = kept
        await volume.put(_hash(b"foo"), b"foo")
        rot(_hash(b"foo"))
        await volume.put(_hash(b"foo"), b"foo")
        assert await volume.get(_hash(b"foo")) == b"foo"

    async def test_a_second_put_counts_as_put_now(self, volume: Volume) -> None:
        await volume.put(_hash(b"foo"), b"foo")
        first = await volume.head(_hash(b"foo"))
        await volume.put(_hash(b"foo"), b"foo")
        second = await volume.head(_hash(b"foo"))
        assert first.size == second.size == 3
        assert second.mtime_ns >= first.mtime_ns

    async def test_the_same_block_put_by_many_at_once(self, volume: Volume) -> None:
        await asyncio.gather(*(volume.put(_hash(b"foo"), b"foo") for _ in range(20)))
        assert [stored.hash async for stored in volume.index()] == [_hash(b"foo")]

    async def test_the_index_is_sorted_and_keeps_to_its_prefix(self, volume: Volume) -> None:
        hashes = sorted(_hash(str(number).encode()) for number in range(50))
        for number in range(50):
            await volume.put(_hash(str(number).encode()), str(number).encode())
        assert [stored.hash async for stored in volume.index()] == hashes
        for prefix in ("c", "c4c", hashes[3], "fffff"):
            listed = [stored.hash async for stored in volume.index(prefix)]
            assert listed == [hash for hash in hashes if hash.startswith(prefix)]

    async def test_space_is_known(self, volume: Volume) -> None:
        space = await volume.space()
        assert space.free > 1 << 20
        assert space.total == 0 or space.total >= space.free

    async def test_a_block_is_read_into_memory_that_is_given(self, volume: Volume) -> None:
        await volume.put(_hash(b"foo"), b"foo")
        room = bytearray(5)
        assert bytes(await volume.get(_hash(b"foo"), memoryview(room))) == b"foo"
        assert room[:3] == b"foo"
        with pytest.raises(NotFound):
            await volume.get(_hash(b"foo"), memoryview(bytearray(2)))

    async def test_touch_counts_as_a_put(self, volume: Volume) -> None:
        with pytest.raises(NotFound):
            await volume.touch(_hash(b"foo"))
        await volume.put(_hash(b"foo"), b"foo")
        first = await volume.head(_hash(b"foo"))
        await volume.touch(_hash(b"foo"))
        assert (await volume.head(_hash(b"foo"))).mtime_ns >= first.mtime_ns
        assert await volume.get(_hash(b"foo")) == b"foo"

    async def test_into_the_bin_and_back(self, volume: Volume) -> None:
        await volume.put(_hash(b"foo"), b"foo")
        stored = await volume.head(_hash(b"foo"))
        await volume.discard(_hash(b"foo"), stored.mtime_ns)
        assert [stored async for stored in volume.index()] == []
        with pytest.raises(NotFound):
            await volume.get(_hash(b"foo"))
        (thrown,) = [discarded async for discarded in volume.discarded()]
        assert (thrown.hash, thrown.size) == (_hash(b"foo"), 3)
        assert thrown.discarded_ns >= stored.mtime_ns
        await volume.restore(_hash(b"foo"))
        assert await volume.get(_hash(b"foo")) == b"foo"
        assert [discarded async for discarded in volume.discarded()] == []
        with pytest.raises(NotFound):
            await volume.restore(_hash(b"foo"))

    async def test_what_was_put_again_does_not_go_into_the_bin(self, volume: Volume) -> None:
        await volume.put(_hash(b"foo"), b"foo")
        stored = await volume.head(_hash(b"foo"))
        for move in (volume.discard, volume.quarantine):
            with pytest.raises(Conflict):
                await move(_hash(b"foo"), stored.mtime_ns - 5_000_000_000)
            with pytest.raises(NotFound):
                await move(_hash(b"bar"), stored.mtime_ns)
        assert await volume.get(_hash(b"foo")) == b"foo"

    async def test_what_is_deleted_from_the_bin_does_not_come_back(self, volume: Volume) -> None:
        await volume.put(_hash(b"foo"), b"foo")
        await volume.discard(_hash(b"foo"), (await volume.head(_hash(b"foo"))).mtime_ns)
        (thrown,) = [discarded async for discarded in volume.discarded()]
        with pytest.raises(NotFound):
            await volume.delete(_hash(b"bar"), thrown.discarded_ns)
        await volume.delete(_hash(b"foo"), thrown.discarded_ns)
        with pytest.raises(NotFound):
            await volume.restore(_hash(b"foo"))

    async def test_a_block_in_the_bin_can_be_put_anew(self, volume: Volume) -> None:
        await volume.put(_hash(b"foo"), b"foo")
        await volume.discard(_hash(b"foo"), (await volume.head(_hash(b"foo"))).mtime_ns)
        await volume.put(_hash(b"foo"), b"foo")
        assert await volume.get(_hash(b"foo")) == b"foo"
        assert len([discarded async for discarded in volume.discarded()]) == 1

    async def test_a_quarantined_block_is_said_to_be_damaged_until_it_is_put_again(
        self,
        kept: tuple[Volume, Rot],
    ) -> None:
        volume, rot = kept
        await volume.put(_hash(b"foo"), b"foo")
        rot(_hash(b"foo"))
        await volume.quarantine(_hash(b"foo"), (await volume.head(_hash(b"foo"))).mtime_ns)
        assert [stored async for stored in volume.index()] == []
        for look in (volume.get, volume.head):
            with pytest.raises(Corrupt):
                await look(_hash(b"foo"))
        await volume.put(_hash(b"foo"), b"foo")
        assert await volume.get(_hash(b"foo")) == b"foo"

    async def test_many_puts_and_discards_at_once_lose_nothing_acknowledged(
        self, volume: Volume
    ) -> None:
        async def throw_away() -> None:
            with suppress(Conflict, NotFound):
                await volume.discard(_hash(b"foo"), (await volume.head(_hash(b"foo"))).mtime_ns)

        async def put() -> None:
            await volume.put(_hash(b"foo"), b"foo")

        for _ in range(5):
            await asyncio.gather(*(work() for work in (throw_away, put) * 4))
            await volume.put(_hash(b"foo"), b"foo")
            assert await volume.get(_hash(b"foo")) == b"foo"

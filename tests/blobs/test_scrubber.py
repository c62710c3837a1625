from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator

import pytest

from lading.blobs.collector import Hit
from lading.blobs.scrubber import Findings, Remedy, Scrubber
from lading.blobs.volume import Stored
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.core.errors import Corrupt
from lading.testing.blocks import MemoryReferences, MemoryVolume

BLOCKS = {
    hashlib.md5(data, usedforsecurity=False).hexdigest(): data
    for data in (b"one", b"two", b"three")
}
ONE, TWO, THREE = BLOCKS


class Site:
    def __init__(self, *, rate: int = 0, read_only: bool = False) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.first, self.second = MemoryVolume(), MemoryVolume()
        self.mounts = VolumeSet(
            [
                VolumeMount(uuid="a", volume=self.first, is_read_only=read_only),
                VolumeMount(uuid="b", volume=self.second),
            ]
        )
        self.references = MemoryReferences()
        self.scrubber = Scrubber(
            self.mounts, self.references, rate=rate, clock=lambda: self.now, sleep=self._sleep
        )

    async def fill(self) -> None:
        for hash, data in BLOCKS.items():
            await self.first.put(hash, data)

    async def run(self, after: str = "", volume: str = "") -> Findings:
        async def ignore(_: Findings) -> None:
            """Nobody watches."""

        return await self.scrubber.run(after=after, volume=volume, progress=ignore)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
async def site() -> Site:
    made = Site()
    await made.fill()
    return made


async def test_what_is_whole_is_read_and_left(site: Site) -> None:
    await site.second.put(ONE, b"one")
    findings = await site.run()
    assert (findings.blocks, findings.bytes, findings.damaged, findings.failures) == (4, 14, [], [])


async def test_a_damaged_block_is_repaired_from_another_volume(site: Site) -> None:
    await site.second.put(ONE, b"one")
    site.first.rot(ONE)
    (damage,) = (await site.run()).damaged
    assert (damage.hash, damage.volume, damage.remedy, damage.hits) == (
        ONE,
        "a",
        Remedy.REPAIRED,
        [],
    )
    assert await site.first.get(ONE) == b"one"
    assert (await site.run()).damaged == []


async def test_one_that_cannot_be_repaired_is_taken_away_and_the_files_told(site: Site) -> None:
    site.references.save("mine", TWO, THREE)
    site.references.save("other", THREE)
    await site.second.put(TWO, b"two")
    for volume in (site.first, site.second):
        volume.rot(TWO)
    damaged = (await site.run()).damaged
    assert [(one.volume, one.remedy) for one in damaged] == [
        ("a", Remedy.QUARANTINED),
        ("b", Remedy.QUARANTINED),
    ]
    assert damaged[0].hits == [Hit("mine", "mine", ["file"])]
    assert site.first.quarantined == {TWO: b"uwo"}
    with pytest.raises(Corrupt):
        await site.mounts.get(TWO)


async def test_a_read_only_volume_is_left_as_it_is() -> None:
    site = Site(read_only=True)
    await site.fill()
    site.first.rot(ONE)
    assert [one.remedy for one in (await site.run()).damaged] == [Remedy.LEFT]
    await site.second.put(ONE, b"one")
    assert [one.remedy for one in (await site.run()).damaged] == [Remedy.LEFT]


async def test_a_block_put_again_or_gone_meanwhile_is_no_damage(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.first.rot(ONE)
    quarantine = site.first.quarantine

    async def put_first(hash: str, mtime_ns: int) -> None:
        await site.first.put(hash, BLOCKS[hash])
        await quarantine(hash, mtime_ns)

    monkeypatch.setattr(site.first, "quarantine", put_first)
    assert [one.remedy for one in (await site.run()).damaged] == [Remedy.LEFT]
    assert await site.first.get(ONE) == b"one"
    index = [stored async for stored in site.first.index()]
    await site.first.discard(TWO, (await site.first.head(TWO)).mtime_ns)

    async def earlier(prefix: str = "") -> AsyncGenerator[Stored]:
        for stored in index:
            yield stored

    monkeypatch.setattr(site.first, "index", earlier)
    findings = await site.run(volume="a")
    assert (findings.blocks, findings.damaged, findings.failures) == (len(index), [], [])


async def test_it_goes_on_where_it_was(site: Site) -> None:
    order = sorted(BLOCKS)
    findings = await site.run(after=f"a {order[0]}")
    assert (findings.blocks, findings.position) == (2, f"a {order[2]}")
    assert (await site.run(after="b")).blocks == 0
    assert (await site.run(volume="b")).blocks == 0


async def test_it_keeps_to_its_rate() -> None:
    site = Site(rate=1)
    await site.fill()
    await site.run()
    assert sum(site.slept) == 11


async def test_a_volume_that_fails_is_told_and_the_others_are_read(site: Site) -> None:
    await site.second.put(ONE, b"one")
    site.first.failures = 1.0
    findings = await site.run()
    assert (findings.blocks, findings.failures) == (1, ["a: the volume failed"])

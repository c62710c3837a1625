from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from lading.blobs.collector import Collector, CollectorResult, CopyCounts, Named
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.core.data.confirmation import CopyCount
from lading.core.data.garbage import DAY_NS, GarbageAction, Sight
from lading.core.errors import Invalid, NotFound, Unavailable
from lading.testing.blocks import MemoryReferences, MemoryVolume

TTL = 14 * 86400.0
NAMED, UNNAMED = (
    hashlib.md5(data, usedforsecurity=False).hexdigest() for data in (b"named", b"unnamed")
)


class Site:
    """Two volumes, on which a block that is named and one that is not were put on the first day."""

    def __init__(self, *, may_trash: bool = True) -> None:
        self.now = 100.0
        self.volumes = [MemoryVolume(), MemoryVolume()]
        self.mounts = VolumeSet(
            [
                VolumeMount(uuid=str(number), volume=volume)
                for number, volume in enumerate(self.volumes)
            ]
        )
        self.references = MemoryReferences()
        self.collector = Collector(
            self.mounts,
            self.references,
            grace=TTL,
            lifetime=TTL,
            may_trash=may_trash,
            clock=lambda: self.now,
        )

    def wait(self, days: float) -> None:
        self.now += days * 86400
        for volume in self.volumes:
            volume.now_ns = int(self.now * 1e9)
        self.references.new.clear()

    async def run(self) -> CollectorResult:
        look = await self.collector.look(progress=lambda *_: None)
        return await self.collector.carry_out(look, progress=lambda *_: None)


@pytest.fixture
async def site() -> Site:
    made = Site()
    await made.volumes[0].put(NAMED, b"named")
    await made.volumes[0].put(UNNAMED, b"unnamed")
    made.references.save("one", NAMED)
    made.wait(15)
    return made


async def hashes(volume: MemoryVolume) -> set[str]:
    return {stored.hash async for stored in volume.index()}


async def test_a_life_of_garbage(site: Site) -> None:
    outcome = await site.run()
    assert (outcome.done, outcome.bytes) == ({GarbageAction.TRASH: 1}, {GarbageAction.TRASH: 7})
    assert await hashes(site.volumes[0]) == {NAMED}
    assert [one.hash async for one in site.volumes[0].discarded()] == [UNNAMED]
    site.wait(13)
    assert (await site.run()).done == {}
    site.wait(2)
    assert (await site.run()).done == {GarbageAction.DELETE: 1}
    assert [one async for one in site.volumes[0].discarded()] == []
    assert (await site.run()).done == {}


async def test_a_look_changes_nothing(site: Site) -> None:
    told: list[str] = []
    look = await site.collector.look(progress=lambda what, *_: told.append(what))
    assert [step.kind for step in look.plan.steps] == [GarbageAction.TRASH]
    assert (look.blocks, look.bytes, look.named) == (2, 12, 1)
    assert set(told) == {"volumes", "collections"}
    assert await hashes(site.volumes[0]) == {NAMED, UNNAMED}


async def test_what_is_named_again_comes_back(site: Site) -> None:
    await site.run()
    site.references.save("two", UNNAMED)
    assert (await site.run()).done == {GarbageAction.UNTRASH: 1}
    assert await site.volumes[0].get(UNNAMED) == b"unnamed"


async def test_copies_are_made_and_taken_back(site: Site) -> None:
    site.references.save("one", NAMED, copies=2)
    assert (await site.run()).done[GarbageAction.PULL] == 1
    assert await site.volumes[1].get(NAMED) == b"named"
    site.references.save("one", NAMED, copies=1)
    site.wait(15)
    assert (await site.run()).done[GarbageAction.TRASH] == 1
    assert (
        len(await hashes(site.volumes[0]) & {NAMED}) + len(await hashes(site.volumes[1]) & {NAMED})
        == 1
    )


async def test_what_was_put_again_since_the_look_stays(site: Site) -> None:
    look = await site.collector.look(progress=lambda *_: None)
    await site.volumes[0].put(UNNAMED, b"unnamed")
    outcome = await site.collector.carry_out(look, progress=lambda *_: None)
    assert (outcome.done, outcome.left) == ({}, 1)
    assert await hashes(site.volumes[0]) == {NAMED, UNNAMED}


async def test_what_was_named_since_the_look_stays(site: Site) -> None:
    site.references.on_changed = lambda: site.references.save("two", UNNAMED)
    outcome = await site.run()
    assert (outcome.done, outcome.left) == ({}, 1)
    assert await hashes(site.volumes[0]) == {NAMED, UNNAMED}


async def test_what_cannot_be_seen_is_not_garbage(site: Site) -> None:
    site.volumes[1].failures = 1.0
    with pytest.raises(Unavailable):
        await site.run()
    site.volumes[1].failures = 0.0
    site.references.fails = True
    with pytest.raises(Unavailable):
        await site.run()
    site.references = MemoryReferences()
    site.collector = Collector(
        site.mounts, site.references, grace=TTL, lifetime=TTL, clock=lambda: site.now
    )
    with pytest.raises(Invalid, match="right database"):
        await site.run()
    assert await hashes(site.volumes[0]) == {NAMED, UNNAMED}


async def test_what_fails_is_told_and_the_rest_done(site: Site) -> None:
    look = await site.collector.look(progress=lambda *_: None)
    site.volumes[0].failures = 1.0
    outcome = await site.collector.carry_out(look, progress=lambda *_: None)
    assert outcome.done == {}
    assert outcome.failures == [f"trash {UNNAMED} on 0: the volume failed"]


async def test_lost_blocks_are_told_and_nothing_goes_when_it_may_not(site: Site) -> None:
    site.references.save("two", "0" * 32)
    look = await site.collector.look(progress=lambda *_: None)
    assert look.plan.lost == ("0" * 32,)
    await site.collector.carry_out(look, progress=lambda *_: None)
    kept = Site(may_trash=False)
    kept.references.save("one", NAMED)
    await kept.volumes[0].put(UNNAMED, b"unnamed")
    kept.wait(100)
    assert (await kept.run()).done == {}


async def test_what_is_uploaded_during_the_look_is_no_loss(site: Site) -> None:
    """A block that is put, and named, after its volume was seen and before the collections are."""
    late = hashlib.md5(b"late", usedforsecurity=False).hexdigest()

    class Uploading(MemoryReferences):
        async def all(self) -> AsyncGenerator[Named]:
            await site.volumes[1].put(late, b"late")
            self.save("late", late)
            async for one in super().all():
                yield one

    site.references = Uploading()
    site.references.save("one", NAMED)
    site.references.save("two", "0" * 32)
    site.collector = Collector(
        site.mounts, site.references, grace=TTL, lifetime=TTL, clock=lambda: site.now
    )
    look = await site.collector.look(progress=lambda *_: None)
    assert look.plan.lost == ("0" * 32,)
    assert look.plan.lacking == ()
    assert [step.hash for step in look.plan.steps] == [UNNAMED]


async def test_puts_saves_and_collections_at_once_lose_nothing(site: Site) -> None:
    """Writers put and save while the collector runs again and again, and time flies."""
    data = [str(number).encode() for number in range(8)]
    names = {hashlib.md5(one, usedforsecurity=False).hexdigest(): one for one in data}
    saved: set[str] = set()

    async def write(number: int) -> None:
        for turn in range(30):
            hash = list(names)[(number * 3 + turn) % len(names)]
            await site.volumes[turn % 2].put(hash, names[hash])
            await asyncio.sleep(0)
            if (number + turn) % 3 == 0:
                site.references.save(hash, hash)
                saved.add(hash)
            await asyncio.sleep(0)

    async def collect() -> None:
        for _ in range(30):
            await site.run()
            site.wait(5)
            await asyncio.sleep(0)

    await asyncio.gather(collect(), *(write(number) for number in range(4)))
    for hash in saved:
        assert await site.mounts.get(hash) == names[hash]
    with pytest.raises(NotFound):
        await site.mounts.get("0" * 32)
    assert int(DAY_NS) == 86_400 * 10**9


def recorded(site: Site, name: str) -> CopyCount:
    return site.references.named[name].recorded


async def test_copies_are_recorded_when_they_are_there(site: Site) -> None:
    site.references.save("many", NAMED, copies=2)
    site.references.save("empty", copies=2)
    site.references.new.clear()
    look = await site.collector.look(progress=lambda *_: None)
    # A look writes nothing.
    assert recorded(site, "one") == CopyCount()
    outcome = await site.collector.carry_out(look, progress=lambda *_: None)
    assert outcome.recorded == 3
    assert site.references.recorded_at == look.began
    # The missing copy was made by this run.
    assert recorded(site, "many") == CopyCount(2, ("default",))
    assert recorded(site, "one") == CopyCount(1, ("default",))
    assert recorded(site, "empty") == CopyCount(2, ("default",))
    # The copy counts for the other collection too.
    assert (await site.run()).recorded == 1
    assert recorded(site, "one") == CopyCount(2, ("default",))
    # What is recorded already is not written again.
    assert (await site.run()).recorded == 0


async def test_a_lost_copy_takes_the_confirmation_back(site: Site) -> None:
    await site.run()
    assert recorded(site, "one") == CopyCount(1, ("default",))
    site.references.named["one"] = replace(site.references.named["one"], hashes=(NAMED, "f" * 32))
    assert (await site.run()).recorded == 1
    assert recorded(site, "one") == CopyCount(0, ())


async def test_a_collection_that_changes_meanwhile_is_left_to_the_next_run(site: Site) -> None:
    site.references.on_changed = lambda: site.references.save("one", NAMED)
    assert (await site.run()).recorded == 0
    site.references.on_changed = lambda: None
    site.references.new.clear()
    assert (await site.run()).recorded == 1


async def test_a_database_that_takes_no_counts_is_a_failure(site: Site) -> None:
    site.references.is_read_only = True
    outcome = await site.run()
    assert outcome.failures == ["copies of collections not recorded: read-only"]
    assert outcome.done == {GarbageAction.TRASH: 1}


def test_counting_again_is_bounded() -> None:
    counts = CopyCounts(Sight({}), most_again=2)
    for name in ("one", "two", "three"):
        counts.add(Named((NAMED,), 1, ("default",), name, recorded=CopyCount(1, ("default",))))
    assert [(named.uuid, count) for named, count in counts.again()] == [
        ("one", CopyCount()),
        ("two", CopyCount()),
    ]


async def test_a_large_output_by_reference_is_confirmed_in_its_class() -> None:
    """Blocks of inputs in another class are copied, and more than a write looks up are counted."""
    site = Site()
    site.mounts = VolumeSet(
        [
            VolumeMount(uuid=name, volume=volume, classes=frozenset({name}))
            for name, volume in zip(("default", "archive"), site.volumes, strict=True)
        ]
    )
    site.collector = Collector(
        site.mounts, site.references, grace=TTL, lifetime=TTL, clock=lambda: site.now
    )
    blocks = [
        hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest() for number in range(300)
    ]
    for number, block in enumerate(blocks):
        await site.volumes[0].put(block, b"%d" % number)
    assert await site.mounts.classes_of(blocks, ["archive"]) == []
    site.references.save("output", *blocks, classes=("archive",))
    site.references.save("empty", classes=("archive",))
    site.references.new.clear()
    assert (await site.run()).done[GarbageAction.PULL] == 300
    for name in ("output", "empty"):
        assert recorded(site, name) == CopyCount(1, ("archive",))


class CompactedVolume(MemoryVolume):
    """Counts its compactions."""

    compactions = 0
    is_broken = False

    async def compact(self) -> None:
        if self.is_broken:
            raise Unavailable("the disk failed")
        self.compactions += 1


async def test_volumes_are_compacted_after_a_collection(site: Site) -> None:
    volume = CompactedVolume()
    site.mounts = VolumeSet([VolumeMount(uuid="packed", volume=volume)])
    await volume.put(NAMED, b"named")
    collector = Collector(
        site.mounts, site.references, grace=TTL, lifetime=TTL, clock=lambda: site.now
    )
    for is_broken, failures in ((False, []), (True, ["packed not compacted: the disk failed"])):
        volume.is_broken = is_broken
        look = await collector.look(progress=lambda *_: None)
        outcome = await collector.carry_out(look, progress=lambda *_: None)
        assert outcome.failures == failures
    assert volume.compactions == 1

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from lading.blobs.directory import DirectoryVolume
from lading.blobs.volume import Volume
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.core.data.placement import DesiredReplication
from lading.core.errors import Conflict, Corrupt, Full, NotFound, Unavailable
from lading.testing.blocks import MemoryVolume

FOO = hashlib.md5(b"foo", usedforsecurity=False).hexdigest()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def mounted(
    *volumes: Volume, clock: Clock | None = None, read_only: tuple[int, ...] = ()
) -> VolumeSet:
    made = [
        VolumeMount(uuid=str(number), volume=volume, is_read_only=number in read_only)
        for number, volume in enumerate(volumes)
    ]
    return VolumeSet(made, clock=clock or Clock())


async def put(mounts: VolumeSet, data: bytes = b"foo", *, copies: int = 1) -> int:
    hash, desired = (
        hashlib.md5(data, usedforsecurity=False).hexdigest(),
        DesiredReplication(copies=copies),
    )
    receipt = await mounts.put(hash, data, desired=desired, places=await mounts.places(hash))
    assert receipt.classes == {"default": receipt.copies}
    return receipt.copies


async def holders(mounts: VolumeSet) -> list[str]:
    return [one.uuid for one in mounts.all if [stored async for stored in one.volume.index()]]


async def test_as_many_volumes_are_written_as_copies_are_wished_for() -> None:
    mounts = mounted(MemoryVolume(), MemoryVolume(), MemoryVolume())
    assert await put(mounts, copies=2) == 2
    assert len(await holders(mounts)) == 2
    assert await put(mounts, copies=2) == 2
    assert len(await holders(mounts)) == 2


async def test_fewer_copies_are_told_when_more_cannot_be_made() -> None:
    assert await put(mounted(MemoryVolume(), MemoryVolume(failures=1.0)), copies=3) == 1


async def test_a_volume_that_fails_is_passed_over_and_told() -> None:
    broken, clock = MemoryVolume(), Clock()
    mounts = mounted(broken, MemoryVolume(), clock=clock)
    await mounts.space(mounts.all[0])
    broken.failures = 1.0
    for number in range(10):
        assert await put(mounts, str(number).encode()) == 1
    assert await holders(mounted(*(mount.volume for mount in mounts.all[1:]))) == ["0"]
    health = mounts.health(mounts.all[0])
    assert health.faults > 0
    assert health.last_fault == "the volume failed"
    broken.failures = 0.0
    places = await mounts.places(FOO)
    assert [place.uuid for place in places if place.fails] == ["0"]
    clock.now += 31
    assert not any(place.fails for place in await mounts.places(FOO))


async def test_full_is_said_when_all_are_full_and_try_again_when_one_may_recover() -> None:
    with pytest.raises(Full):
        await put(mounted(MemoryVolume(capacity=1), MemoryVolume(capacity=1)))
    with pytest.raises(Unavailable) as caught:
        await put(mounted(MemoryVolume(capacity=1), MemoryVolume(failures=1.0)))
    assert not isinstance(caught.value, Full)
    with pytest.raises(Full, match="storage classes default"):
        await put(mounted(MemoryVolume(), read_only=(0,)))


async def test_a_read_takes_whichever_copy_is_whole() -> None:
    first, second = MemoryVolume(), MemoryVolume()
    mounts = mounted(first, second)
    await put(mounts, copies=2)
    first.rot(FOO)
    assert await mounts.get(FOO) == b"foo"
    assert mounts.health(mounts.all[0]).damaged == 1
    second.rot(FOO)
    with pytest.raises(Corrupt):
        await mounts.get(FOO)
    second.failures = 1.0
    with pytest.raises(Corrupt):
        await mounts.get(FOO)


async def test_what_is_in_the_bin_comes_back_when_it_is_asked_for() -> None:
    volume = MemoryVolume()
    mounts = mounted(MemoryVolume(failures=1.0), volume)
    for look in (mounts.get, mounts.head):
        await volume.put(FOO, b"foo")
        await volume.discard(FOO, (await volume.head(FOO)).mtime_ns)
        mounts.all[0].volume.failures = 0.0  # type: ignore[attr-defined]
        assert await look(FOO)
        assert [stored.hash async for stored in volume.index()] == [FOO]
    with pytest.raises(NotFound):
        await mounts.get("0" * 32)
    with pytest.raises(NotFound):
        await mounts.head("0" * 32)


async def test_work_on_all_copies() -> None:
    first, second = MemoryVolume(), MemoryVolume()
    mounts = mounted(first, second, MemoryVolume())
    await put(mounts, copies=2)
    assert len(await mounts.on_all(FOO, lambda volume: volume.touch(FOO))) == 2
    with pytest.raises(Conflict):
        await mounts.on_all(FOO, lambda volume: volume.discard(FOO, 5))
    with pytest.raises(NotFound):
        await mounts.on_all("0" * 32, lambda volume: volume.touch("0" * 32))


async def test_a_draft_is_begun_where_the_block_will_stay(tmp_path: Path) -> None:
    mounts = mounted(DirectoryVolume(tmp_path / "a"), DirectoryVolume(tmp_path / "b"))
    places = await mounts.places(FOO)
    draft = await mounts.begin(places, DesiredReplication(copies=2), 3)
    assert draft is not None
    assert draft[0] == places[0].uuid
    await draft[1].write(memoryview(b"foo"))
    assert (
        await mounts.put(
            FOO, b"foo", desired=DesiredReplication(copies=2), places=places, draft=draft
        )
    ).copies == 2
    assert len(await holders(mounts)) == 2
    assert list(tmp_path.glob("*/tmp/*")) == []
    assert await mounts.begin(await mounts.places(FOO), DesiredReplication(), 3) is None
    await mounts.aclose()


async def test_no_draft_where_none_can_be_had(tmp_path: Path) -> None:
    assert await mounted().begin([], DesiredReplication(), 3) is None
    mounts = mounted(MemoryVolume())
    assert await mounts.begin(await mounts.places(FOO), DesiredReplication(), 3) is None
    full = mounted(DirectoryVolume(tmp_path, reserve=1 << 60))
    assert await full.begin(await full.places(FOO), DesiredReplication(), 3) is None


async def test_space_is_asked_for_now_and_then() -> None:
    volume, clock = MemoryVolume(capacity=100), Clock()
    mounts = mounted(volume, clock=clock)
    assert (await mounts.space(mounts.all[0])).free == 100
    await volume.put(FOO, b"foo")
    assert (await mounts.space(mounts.all[0])).free == 100
    clock.now += 6
    assert (await mounts.space(mounts.all[0])).free == 97
    with pytest.raises(NotFound):
        mounts.find("other")


async def test_the_first_volume_that_can_lends_its_file(tmp_path: Path) -> None:
    bare, empty, full = (
        MemoryVolume(),
        DirectoryVolume(tmp_path / "a"),
        DirectoryVolume(tmp_path / "b", reserve=0),
    )
    await full.put(FOO, b"foo")
    loan = await mounted(bare, empty, full).lend(FOO)
    assert Path(f"/proc/self/fd/{loan.descriptor}").samefile(tmp_path / "b" / FOO[:3] / FOO)
    with pytest.raises(NotFound, match="no such block"):
        await mounted(bare, empty).lend(FOO)
    for volume in (empty, full):
        await volume.close()


async def test_volumes_are_asked_whether_they_answer() -> None:
    broken = MemoryVolume(failures=1.0)
    await mounted(MemoryVolume(), broken).check()
    with pytest.raises(Unavailable):
        await mounted(broken).check()
    with pytest.raises(Unavailable):
        await mounted(MemoryVolume(), broken, read_only=(0,)).check()
    await mounted(MemoryVolume(), read_only=(0,)).check()


async def test_a_directory_that_is_not_there_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    mounts = mounted(DirectoryVolume(tmp_path / "v"))
    await mounts.check()
    shutil.rmtree(tmp_path / "v")
    with pytest.raises(Unavailable):
        await mounts.check()
    await mounts.aclose()

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from lading.client.caches.disk_space import read_disk
from lading.core.containers.disk_space import Amount, DiskAllowance, DiskWriter
from lading.supervisor.limits import disk_limits
from lading.supervisor.limits.disk_limits import DiskWatch, base
from lading.supervisor.limits.disk_usage import Neighbours
from lading.testing.jumping_loop import jumping

MIB = 1 << 20


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in disk_limits.PLACES:
        (tmp_path / "run" / "me" / name).mkdir(parents=True)
    return tmp_path / "run" / "me"


def watch(run: Path, **more: Any) -> DiskWatch:
    given: dict[str, Any] = {
        "allowed": DiskAllowance(),
        "configured": Amount(0, 0),
        "processes": lambda: [],
        "first": 0.0,
        "clock": asyncio.get_running_loop().time,
        **more,
    }
    return DiskWatch(run=run, **given)


def write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


async def ends(watch: DiskWatch) -> str:
    async with asyncio.timeout(30):
        return await watch.run_until_full()


@jumping
async def test_a_container_over_its_limit_ends(run: Path) -> None:
    watching = asyncio.create_task(
        ends(watch(run, allowed=DiskAllowance(mounts=MIB, beside=MIB, files=0)))
    )
    await asyncio.sleep(0)
    write(run / "mounts" / "big", 40 * MIB)
    assert "40.0 MiB to the disk of this machine, and 2.0 MiB are allowed" in await watching


@jumping
async def test_what_was_there_before_it_began_does_not_count(run: Path) -> None:
    write(run / "mounts" / "given", 40 * MIB)
    before = base(run)
    assert before.size >= 40 * MIB
    watching = watch(run, allowed=DiskAllowance(mounts=MIB, beside=MIB), base=before)
    running = asyncio.create_task(ends(watching))
    await asyncio.sleep(0)
    write(run / "mounts" / "more", 20 * MIB)
    assert "has written 20.0 MiB" in await running


@jumping
async def test_directories_that_cannot_be_measured(run: Path) -> None:
    watching = asyncio.create_task(ends(watch(run, allowed=DiskAllowance(beside=60 * MIB))))
    await asyncio.sleep(0)
    here = run / "mounts"
    for _ in range(500):
        here /= "d"
    here.mkdir(parents=True)
    write(run / "mounts" / "big", 40 * MIB)
    assert "directories more than 400 deep" in await watching


@jumping
async def test_on_a_full_disk_the_largest_ends(run: Path) -> None:
    write(run / "mounts" / "mine", 40 * MIB)
    device = run.stat().st_dev
    (run.parent / "other").mkdir()
    free = read_disk(run).free.size
    kept = Amount(free + (1 << 40), 0)
    other = Neighbours(run.parent / "other", lambda: 0.0)
    other.tell({device: DiskWriter("other", Amount(1 << 50, 1), Amount(1 << 50, 1))})
    small = watch(run, configured=kept)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await small.run_until_full()
    other.tell({device: DiskWriter("other", Amount(1, 1), Amount(1 << 50, 1))})
    assert "takes the most, 40.0 MiB" in await ends(watch(run, configured=kept))


@jumping
async def test_nobody_ends_for_what_others_have_filled(run: Path) -> None:
    free = read_disk(run).free.size
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await watch(run, configured=Amount(free + (1 << 40), 0)).run_until_full()


@jumping
async def test_a_container_that_does_little_is_not_measured(run: Path) -> None:
    watching = watch(run, allowed=DiskAllowance(mounts=1 << 40, beside=1 << 40, files=1 << 40))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await watching.run_until_full()
    assert (run / "disk").read_bytes().strip() == b"{}"


@jumping
async def test_the_disk_of_a_daemon_is_looked_at_too(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = tmp_path / "layer"
    layer.mkdir()
    sought: list[int] = []

    def layers(tables: list[object]) -> tuple[Path, ...]:
        sought.append(len(tables))
        return (layer,) if len(sought) > 1 else ()

    monkeypatch.setattr(disk_limits, "layers_of", layers)
    watching = asyncio.create_task(
        ends(watch(run, has_daemon=True, allowed=DiskAllowance(beside=30 * MIB)))
    )
    write(layer / "big", 40 * MIB)
    assert "has written 40.0 MiB" in await watching


@jumping
async def test_growth_counts_while_a_daemon_shows_no_layer(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_limits, "layers_of", lambda pids: ())
    watching = watch(run, has_daemon=True, allowed=DiskAllowance(beside=30 * MIB))
    ending = asyncio.create_task(ends(watching))
    await asyncio.sleep(0)
    began = watching.clock()
    write(run / "mounts" / "big", 40 * MIB)
    assert "has written 40.0 MiB" in await ending
    # It is sought for five seconds.
    assert watching.clock() - began < 3


@jumping
async def test_nobody_ends_before_the_others_have_been_heard(run: Path) -> None:
    write(run / "mounts" / "mine", 40 * MIB)
    (run.parent / "other").mkdir()
    (run.parent / "other" / "journal").touch()
    kept = Amount(read_disk(run).free.size + (1 << 40), 0)
    # The growth of all must be worth it: a part of the reserve.
    kept = Amount(min(kept.size, 1 << 62), 0)
    device = run.stat().st_dev
    other = Neighbours(run.parent / "third", lambda: 0.0)
    (run.parent / "third").mkdir()
    other.tell({device: DiskWriter("third", Amount(1, 1), Amount(1 << 61, 1))})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await watch(run, configured=kept).run_until_full()
    assert "takes the most, 40.0 MiB" in await ends(watch(run, configured=kept, hearing=0.0))


@jumping
async def test_the_largest_ends_as_soon_as_the_others_have_been_heard(run: Path) -> None:
    write(run / "mounts" / "mine", 40 * MIB)
    (run.parent / "other").mkdir()
    (run.parent / "other" / "journal").touch()
    device = run.stat().st_dev
    (run.parent / "third").mkdir()
    third = Neighbours(run.parent / "third", lambda: 0.0)
    third.tell({device: DiskWriter("third", Amount(1, 1), Amount(1 << 61, 1))})
    watching = watch(run, configured=Amount(read_disk(run).free.size + (1 << 40), 0))
    ending = asyncio.create_task(ends(watching))
    # Its first measurement does not end it, as the other one is unknown.
    while not any(writer.taken.size for writer in third.others(device)):
        await asyncio.sleep(0)
    heard = watching.clock()
    Neighbours(run.parent / "other", lambda: 0.0).tell(
        {device: DiskWriter("other", Amount(1, 1), Amount(1, 1))}
    )
    assert "takes the most, 40.0 MiB" in await ending
    assert watching.clock() - heard < 0.2

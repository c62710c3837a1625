from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from lading.blobs.volume_set import VolumeSet
from lading.core.errors import Conflict, Invalid
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.schema import prepare
from lading.testing.blocks import MemoryReferences
from lading.testing.world import make_seal
from lading.wiring import upkeep
from lading.wiring.directory import DataDirectory
from lading.wiring.upkeep import Storage, alone, keep_up, open_storage, read_state

FOO, BAR = (hashlib.md5(data, usedforsecurity=False).hexdigest() for data in (b"foo", b"bar"))


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    made = DataDirectory(tmp_path / "data")
    made.prepare()
    made.secrets(entropy=os.urandom(400))
    return made


@pytest.fixture
async def storage(directory: DataDirectory) -> AsyncIterator[Storage]:
    async with open_storage(directory) as opened:
        references = MemoryReferences()
        references.save("one", FOO)
        (mount,) = opened.mounts.all
        await mount.volume.put(FOO, b"foo")
        await mount.volume.put(BAR, b"bar")
        yield Storage(
            directory=directory, config=opened.config, mounts=opened.mounts, references=references
        )


def age(storage: Storage, hash: str, days: int) -> None:
    path = storage.directory.blocks / hash[:3] / hash
    os.utime(path, (time.time() - days * 86400,) * 2)


async def test_where_there_is_no_data_there_is_nothing_to_look_after(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="name the directory with --data"):
        async with open_storage(DataDirectory(tmp_path)):
            pass


async def test_the_records_are_asked(directory: DataDirectory) -> None:
    directory.write_env(directory.secrets(), address="host:5")
    database = SqliteDatabase(directory.database, seal=make_seal())
    await prepare(database, now="now")
    await database.close()
    async with open_storage(directory) as storage:
        assert storage.config.ExternalURL == "https://host:5/"
        assert [named async for named in storage.references.all()] == []


async def test_one_gc_at_a_time(directory: DataDirectory) -> None:
    with alone(directory, "gc"):
        with pytest.raises(Conflict, match="another gc"), alone(directory, "gc"):
            pass
        with alone(directory, "scrub"):
            pass


async def test_what_a_gc_came_to_is_kept(storage: Storage) -> None:
    age(storage, BAR, 15)
    outcome = await upkeep.balance(storage)
    assert outcome.done == {"trash": 1}
    kept = read_state(storage.directory).balance
    assert (kept.blocks, kept.named, kept.done, kept.lost) == (2, 1, {"trash": 1}, [])
    assert abs(kept.at - time.time()) < 60


async def test_what_a_scrub_found_is_kept_and_a_broken_one_goes_on(storage: Storage) -> None:
    (storage.directory.blocks / FOO[:3] / FOO).write_bytes(b"fxo")
    findings = await upkeep.scrub(storage)
    assert [one.hash for one in findings.damaged] == [FOO]
    kept = read_state(storage.directory).scrub
    assert (kept.blocks, kept.position, [one.remedy for one in kept.damaged or ()]) == (
        2,
        "",
        ["quarantined"],
    )
    assert kept.ended >= kept.began > 0
    state = read_state(storage.directory)
    state.scrub.position, state.scrub.ended = f"{storage.mounts.all[0].uuid} {'0' * 32}", 0.0
    (storage.directory.root / "storage.json").write_bytes(msgspec.json.encode(state))
    await upkeep.scrub(storage, save_period=0.0)
    kept = read_state(storage.directory).scrub
    assert (kept.blocks, len(kept.damaged or ())) == (3, 1)


async def test_a_state_that_cannot_be_read_is_no_state(directory: DataDirectory) -> None:
    (directory.root / "storage.json").write_text("{")
    assert read_state(directory).balance.at == 0.0


async def test_both_are_done_at_their_periods_and_failures_are_outlived(storage: Storage) -> None:
    age(storage, BAR, 15)
    slept: list[float] = []
    done = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)
        if 600.0 in slept:
            storage.references.fails = False  # type: ignore[attr-defined]
        state = read_state(storage.directory)
        if state.balance.at and state.scrub.ended:
            done.set()
            await asyncio.Event().wait()

    storage.references.fails = True  # type: ignore[attr-defined]
    keeping = asyncio.create_task(keep_up(storage, sleep=sleep))
    waiting = asyncio.create_task(done.wait())
    await asyncio.wait((keeping, waiting), return_when=asyncio.FIRST_COMPLETED)
    assert not keeping.done(), keeping
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert [
        path.name.partition(".")[0] for path in (storage.directory.blocks / "trash").iterdir()
    ] == [BAR]
    assert 300.0 in slept


async def test_a_fault_of_the_disk_does_not_end_the_server(storage: Storage) -> None:
    """`keep_up` is one of the tasks of the server: with it all of them end."""
    lock = storage.directory.root / "storage.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    done = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)
        if seconds == 600.0 and lock.is_dir():
            lock.rmdir()
        if read_state(storage.directory).balance.at:
            done.set()
            await asyncio.Event().wait()

    keeping = asyncio.create_task(keep_up(storage, sleep=sleep))
    waiting = asyncio.create_task(done.wait())
    await asyncio.wait((keeping, waiting), return_when=asyncio.FIRST_COMPLETED)
    assert not keeping.done(), keeping
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_nothing_is_done_when_it_is_switched_off(storage: Storage) -> None:
    from lading.config.site import load

    config = load(None, {"Collections": {"BalancePeriod": 0, "ScrubPeriod": 0}})
    off = Storage(
        directory=storage.directory,
        config=config,
        mounts=VolumeSet([]),
        references=storage.references,
    )
    await keep_up(off)

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lading.blobs.directory import DirectoryVolume
from lading.blobs.single_files import SingleFiles
from lading.core.data.pack_format import LIMIT
from lading.core.errors import Conflict, Corrupt, Full, Invalid, NotFound, Unavailable
from tests.blobs.damaged_packs import damage_packed

FOO = hashlib.md5(b"foo", usedforsecurity=False).hexdigest()
ENDLESS_WRITER = """
import asyncio, hashlib, sys
from pathlib import Path
from lading.blobs.directory import DirectoryVolume
async def main():
    volume = DirectoryVolume(Path(sys.argv[1]), pack_small_blocks=sys.argv[2] == "packs")
    number = 0
    while True:
        number += 1
        data = f"{sys.argv[3]} {number} ".encode() * int(sys.argv[4])
        name = hashlib.md5(data).hexdigest()
        await volume.put(name, data)
        print(name, flush=True)
asyncio.run(main())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


async def test_a_volume_that_has_gone_is_unavailable(root: Path) -> None:
    volume = DirectoryVolume(root)
    root.rename(root.with_name("elsewhere"))
    for attempt in (volume.put(FOO, b"foo"), volume.get(FOO), volume.head(FOO), volume.space()):
        with pytest.raises(Unavailable):
            await attempt
    with pytest.raises(Unavailable):
        _ = [stored async for stored in volume.index()]
    assert [stored async for stored in volume.index("abc")] == []


async def test_a_folder_that_is_a_file_is_unavailable(root: Path) -> None:
    volume = DirectoryVolume(root)
    (root / FOO[:3]).write_text("in the way")
    for attempt in (volume.put(FOO, b"foo"), volume.get(FOO), volume.head(FOO)):
        with pytest.raises(Unavailable, match="Not a directory"):
            await attempt
    with pytest.raises(Unavailable):
        _ = [stored async for stored in volume.index(FOO[:3])]


async def test_every_acknowledged_block_survives_kill(root: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", ENDLESS_WRITER, str(root), "files", "x", "9000"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline().strip() for _ in range(30)]
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate()
    volume = DirectoryVolume(root)
    for name in acknowledged + rest.split():
        assert await volume.get(name)
    assert list((root / "tmp").iterdir()) == []
    for stored in [stored async for stored in volume.index()]:
        await volume.get(stored.hash)


def test_parameters_are_checked(tmp_path: Path) -> None:
    DirectoryVolume.from_parameters({"Root": str(tmp_path / "a"), "Reserve": 5})
    assert (tmp_path / "a" / "trash").is_dir()
    for wrong, words in (
        ({}, "absolute path"),
        ({"Root": "relative"}, "absolute path"),
        ({"Root": 5}, "must be a str"),
        ({"Route": "/x"}, "unknown parameter Route"),
        ({"Root": "/dev/null/x"}, "cannot be used"),
    ):
        with pytest.raises(Invalid, match=words):
            DirectoryVolume.from_parameters(wrong)


async def _listed(volume: DirectoryVolume) -> list[str]:
    return [stored.hash async for stored in volume.index()]


def _files(root: Path) -> list[Path]:
    return [path for path in root.glob("???/*") if path.parent.name != "tmp"]


async def test_small_blocks_are_packed_and_large_ones_are_files(root: Path) -> None:
    volume = DirectoryVolume(root, pack_small_blocks=True)
    large = bytes(LIMIT)
    await volume.put(FOO, b"foo")
    await volume.put(hashlib.md5(large).hexdigest(), large)
    assert [path.name for path in _files(root)] == [hashlib.md5(large).hexdigest()]
    assert await volume.begin(3) is None
    draft = await volume.begin(LIMIT)
    assert draft is not None
    await draft.discard()
    assert await volume.get(FOO) == b"foo"


async def test_packed_blocks_are_used_where_none_are_packed_any_more(root: Path) -> None:
    await DirectoryVolume(root, pack_small_blocks=True).put(FOO, b"foo")
    for first in ("get", "head", "lend", "put", "touch", "index"):
        volume = DirectoryVolume(root)
        match first:
            case "put":
                await volume.get(FOO)
                await volume.put(FOO, b"foo")
            case "index":
                assert await _listed(volume) == [FOO]
            case _:
                await getattr(volume, first)(FOO)
        assert await volume.get(FOO) == b"foo"
    assert _files(root) == []


async def test_a_block_with_a_file_is_not_packed(root: Path) -> None:
    await DirectoryVolume(root).put(FOO, b"foo")
    volume = DirectoryVolume(root, pack_small_blocks=True)
    before = await volume.head(FOO)
    await volume.put(FOO, b"foo")
    assert (await volume.head(FOO)).mtime_ns > before.mtime_ns
    assert list((root / "packs").glob("*.pack")) == []


async def test_a_block_in_a_file_and_in_a_pack_is_listed_and_discarded_once(root: Path) -> None:
    volume = DirectoryVolume(root, pack_small_blocks=True)
    await volume.put(FOO, b"foo")
    # A process that has not seen the packs.
    await DirectoryVolume(root).put(FOO, b"foo")
    later = time.time_ns() + 10**9
    os.utime(root / FOO[:3] / FOO, ns=(later, later))
    (stored,) = [one async for one in volume.index()]
    packed = await volume.head(FOO)
    assert stored.mtime_ns > packed.mtime_ns
    with pytest.raises(Conflict):
        await volume.discard(FOO, packed.mtime_ns)
    await volume.discard(FOO, stored.mtime_ns)
    assert await _listed(volume) == []
    assert len([one async for one in volume.discarded()]) == 2
    with pytest.raises(NotFound):
        await volume.get(FOO)
    await volume.restore(FOO)
    assert await volume.get(FOO) == b"foo"


async def test_a_damaged_packed_block_is_read_from_its_file(root: Path) -> None:
    volume = DirectoryVolume(root, pack_small_blocks=True)
    await volume.put(FOO, b"foo")
    damage_packed(root, FOO)
    with pytest.raises(Corrupt):
        await volume.get(FOO)
    await DirectoryVolume(root).put(FOO, b"foo")
    assert await volume.get(FOO) == b"foo"


async def test_a_quarantined_packed_block_keeps_its_bytes(root: Path) -> None:
    volume = DirectoryVolume(root, pack_small_blocks=True)
    await volume.put(FOO, b"foo")
    damage_packed(root, FOO)
    await volume.quarantine(FOO, (await volume.head(FOO)).mtime_ns)
    assert (root / "damaged" / FOO).read_bytes() == b"!oo"


async def test_a_discard_that_comes_too_late_leaves_nothing_in_the_bin(root: Path) -> None:
    volume = DirectoryVolume(root, pack_small_blocks=True)
    await volume.put(FOO, b"foo")
    seen = await volume.head(FOO)
    other = DirectoryVolume(root, pack_small_blocks=True)
    await other.put(FOO, b"foo")
    with pytest.raises(Conflict):
        await volume.discard(FOO, seen.mtime_ns)
    assert list((root / "trash").iterdir()) == []


async def test_a_packed_block_is_lent_as_a_file_that_nobody_can_change(root: Path) -> None:
    volume = DirectoryVolume(root, pack_small_blocks=True)
    await volume.put(FOO, b"foo")
    loan = await volume.lend(FOO)
    assert os.pread(loan.descriptor, 10, 0) == b"foo"
    with pytest.raises(PermissionError):
        os.pwrite(loan.descriptor, b"bar", 0)
    loan.close()
    with pytest.raises(NotFound):
        await volume.lend(hashlib.md5(b"absent").hexdigest())


async def test_a_reserve_of_the_disk_stays_free_of_packed_blocks(root: Path) -> None:
    await DirectoryVolume(root, pack_small_blocks=True).put(FOO, b"foo")
    volume = DirectoryVolume(root, pack_small_blocks=True, reserve=1 << 60)
    with pytest.raises(Full, match="no room for 3 bytes"):
        await volume.put(FOO, b"foo")
    # What frees space goes on.
    await volume.discard(FOO, (await volume.head(FOO)).mtime_ns)


async def test_packs_that_have_gone_are_unavailable(root: Path) -> None:
    volume = DirectoryVolume(root, pack_small_blocks=True)
    await volume.put(FOO, b"foo")
    root.rename(root.with_name("elsewhere"))
    for attempt in (volume.put(FOO, b"foo"), volume.get(FOO), volume.touch(FOO)):
        with pytest.raises(Unavailable):
            await attempt
    root.mkdir()
    with pytest.raises(Unavailable):
        await volume.get(FOO)
    with pytest.raises(Unavailable):
        await volume.put(FOO, b"foo")


async def test_two_writers_are_killed_and_nothing_acknowledged_is_lost(root: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", ENDLESS_WRITER, str(root), "packs", name, "500"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    names = []
    for writer in writers:
        assert writer.stdout is not None
        names += [writer.stdout.readline().strip() for _ in range(40)]
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        names += writer.communicate()[0].split()
    volume = DirectoryVolume(root, pack_small_blocks=True)
    for name in names:
        assert await volume.get(name)
    assert set(names) <= set(await _listed(volume))
    await volume.put(FOO, b"foo")
    assert await DirectoryVolume(root).get(FOO) == b"foo"
    await volume.close()


async def test_packed_blocks_become_files_where_none_are_packed_any_more(root: Path) -> None:
    volume = DirectoryVolume(root, pack_small_blocks=True)
    await volume.put(FOO, b"foo")
    for number in range(20):
        data = str(number).encode()
        await volume.put(hashlib.md5(data).hexdigest(), data)
    await volume.compact()
    assert _files(root) == []
    damage_packed(root, FOO)
    with pytest.raises(Corrupt, match="1 damaged blocks stay in packs"):
        await DirectoryVolume(root).compact()
    assert len(_files(root)) == 20
    # As an older version sees it.
    assert await SingleFiles(root).get(hashlib.md5(b"7").hexdigest()) == b"7"
    assert len(await _listed(DirectoryVolume(root))) == 21
    with pytest.raises(Corrupt):
        await DirectoryVolume(root).get(FOO)
    await DirectoryVolume(root.with_name("empty")).compact()

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lading.blobs.directory import DirectoryVolume
from lading.core.errors import Conflict, Corrupt, Full, Invalid, Unavailable

FOO = hashlib.md5(b"foo", usedforsecurity=False).hexdigest()
ENDLESS_WRITER = """
import asyncio, hashlib, sys
from pathlib import Path
from lading.blobs.directory import DirectoryVolume
async def main():
    volume, number = DirectoryVolume(Path(sys.argv[1])), 0
    while True:
        number += 1
        data = str(number).encode() * 20000
        name = hashlib.md5(data).hexdigest()
        await volume.put(name, data)
        print(name, flush=True)
asyncio.run(main())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


async def test_a_block_is_a_private_file_and_nothing_else_is_left(root: Path) -> None:
    await DirectoryVolume(root).put(FOO, b"foo")
    files = [path for path in root.rglob("*") if path.is_file()]
    assert files == [root / FOO[:3] / FOO]
    assert files[0].stat().st_mode & 0o777 == 0o600


async def test_an_intact_block_is_not_written_again(root: Path) -> None:
    volume = DirectoryVolume(root)
    await volume.put(FOO, b"foo")
    before = (root / FOO[:3] / FOO).stat().st_ino
    await volume.put(FOO, b"foo")
    assert (root / FOO[:3] / FOO).stat().st_ino == before


async def test_a_block_is_synced_before_it_is_acknowledged(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda _: steps.append("data"))
    monkeypatch.setattr(os, "fsync", lambda _: steps.append("folder"))
    rename = Path.rename

    def note(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", note)
    volume = DirectoryVolume(root)
    await volume.put(FOO, b"foo")
    assert steps == ["data", "folder", "rename", "folder"]
    steps.clear()
    await volume.put(FOO, b"foo")
    assert steps == ["folder"]


async def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(root: Path) -> None:
    DirectoryVolume(root)
    (root / "tmp" / "dead").write_bytes(b"half")
    with (root / "tmp" / "living").open("wb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        DirectoryVolume(root)
        assert [path.name for path in (root / "tmp").iterdir()] == ["living"]


async def test_room_for_some_files_stays_free(root: Path) -> None:
    volume = DirectoryVolume(root, reserve=0, reserve_files=1 << 60)
    with pytest.raises(Full, match="no room for one more file beside the 1152921504606846976 that"):
        await volume.begin(3)
    await volume.close()


async def test_a_reserve_of_the_disk_stays_free(root: Path) -> None:
    volume = DirectoryVolume(root, reserve=1 << 60)
    assert (await volume.space()).free == 0
    with pytest.raises(
        Full, match=f"no room for 3 bytes beside the {1 << 60} that stay free; free some space"
    ):
        await volume.put(FOO, b"foo")


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, Full), (errno.EDQUOT, Full), (errno.EIO, Unavailable)]
)
async def test_a_failed_write_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    volume = DirectoryVolume(root)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(kind):
        await volume.put(FOO, b"foo")
    assert [path for path in root.rglob("*") if path.is_file()] == []


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
        [sys.executable, "-c", ENDLESS_WRITER, str(root)], stdout=subprocess.PIPE, text=True
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


async def test_a_draft_becomes_the_block_or_leaves_nothing(root: Path) -> None:
    volume = DirectoryVolume(root)
    draft = await volume.begin(3)
    await draft.write(memoryview(b"fo"))
    await draft.write(memoryview(b"o"))
    await draft.commit(FOO)
    assert await volume.get(FOO) == b"foo"
    other = await volume.begin(3)
    await other.write(memoryview(b"ba"))
    await other.discard()
    await draft.discard()
    assert [path for path in root.rglob("*") if path.is_file()] == [root / FOO[:3] / FOO]


async def test_a_large_draft_is_written_out_early(root: Path) -> None:
    data = bytes(9 << 20)
    draft = await DirectoryVolume(root).begin(len(data))
    await draft.write(memoryview(data))
    await draft.commit(hashlib.md5(data).hexdigest())
    assert await DirectoryVolume(root).get(hashlib.md5(data).hexdigest()) == data


async def test_a_draft_on_a_full_disk_is_refused(root: Path) -> None:
    with pytest.raises(Full):
        await DirectoryVolume(root, reserve=1 << 60).begin(3)


async def test_a_disk_that_stands_still_is_given_up(root: Path) -> None:
    volume = DirectoryVolume(root, patience=0.01)
    release = threading.Event()
    with pytest.raises(Unavailable, match="has not answered"):
        await volume.run(release.wait)
    release.set()
    await volume.close()


async def test_the_bin_keeps_to_what_was_seen_under_the_lock(root: Path) -> None:
    """A put and a discard of one block at once, in many orders: what was acknowledged last is
    there.
    """
    volume, other = DirectoryVolume(root), DirectoryVolume(root)
    for _ in range(50):
        await volume.put(FOO, b"foo")
        seen = await volume.head(FOO)
        put, thrown = await asyncio.gather(
            volume.put(FOO, b"foo"), other.discard(FOO, seen.mtime_ns), return_exceptions=True
        )
        assert put is None
        assert thrown is None or isinstance(thrown, Conflict)
        assert await volume.get(FOO) == b"foo"


async def test_quarantined_bytes_are_kept_and_told(root: Path) -> None:
    volume = DirectoryVolume(root)
    await volume.put(FOO, b"foo")
    (root / FOO[:3] / FOO).write_bytes(b"fxo")
    await volume.quarantine(FOO, (await volume.head(FOO)).mtime_ns)
    assert (root / "damaged" / FOO).read_bytes() == b"fxo"
    with pytest.raises(Corrupt, match="taken out of use"):
        await volume.get(FOO)


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

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lading.blobs.volume import DirectoryVolume
from lading.core.errors import Full, Unavailable

FOO = hashlib.md5(b"foo", usedforsecurity=False).hexdigest()
ENDLESS_WRITER = """
import asyncio, hashlib, sys
from pathlib import Path
from lading.blobs.volume import DirectoryVolume
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


async def test_a_block_is_synced_before_it_is_acknowledged(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert steps == ["folder", "data", "rename", "folder"]
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


async def test_a_reserve_of_the_disk_stays_free(root: Path) -> None:
    volume = DirectoryVolume(root, reserve=1 << 60)
    assert await volume.free() == 0
    with pytest.raises(Full, match="free some space"):
        await volume.put(FOO, b"foo")


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, Full), (errno.EDQUOT, Full), (errno.EIO, Unavailable)])
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
    for attempt in (volume.put(FOO, b"foo"), volume.get(FOO), volume.head(FOO), volume.free()):
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
    writer = subprocess.Popen([sys.executable, "-c", ENDLESS_WRITER, str(root)], stdout=subprocess.PIPE, text=True)
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

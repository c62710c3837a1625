from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import threading
from pathlib import Path

import pytest

from lading.blobs.single_files import SingleFiles
from lading.core.errors import Conflict, Corrupt, Full, Unavailable

FOO = hashlib.md5(b"foo", usedforsecurity=False).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


async def test_a_block_is_a_private_file_and_nothing_else_is_left(root: Path) -> None:
    await SingleFiles(root).put(FOO, b"foo")
    files = [path for path in root.rglob("*") if path.is_file()]
    assert files == [root / FOO[:3] / FOO]
    assert files[0].stat().st_mode & 0o777 == 0o600


async def test_an_intact_block_is_not_written_again(root: Path) -> None:
    volume = SingleFiles(root)
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
    volume = SingleFiles(root)
    await volume.put(FOO, b"foo")
    assert steps == ["data", "folder", "rename", "folder"]
    steps.clear()
    await volume.put(FOO, b"foo")
    assert steps == ["folder"]


async def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(root: Path) -> None:
    SingleFiles(root)
    (root / "tmp" / "dead").write_bytes(b"half")
    with (root / "tmp" / "living").open("wb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        SingleFiles(root)
        assert [path.name for path in (root / "tmp").iterdir()] == ["living"]


async def test_room_for_some_files_stays_free(root: Path) -> None:
    volume = SingleFiles(root, reserve=0, reserve_files=1 << 60)
    with pytest.raises(Full, match="no room for one more file beside the 1152921504606846976 that"):
        await volume.begin(3)
    await volume.close()


async def test_a_reserve_of_the_disk_stays_free(root: Path) -> None:
    volume = SingleFiles(root, reserve=1 << 60)
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

    volume = SingleFiles(root)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(kind):
        await volume.put(FOO, b"foo")
    assert [path for path in root.rglob("*") if path.is_file()] == []


async def test_a_draft_becomes_the_block_or_leaves_nothing(root: Path) -> None:
    volume = SingleFiles(root)
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
    draft = await SingleFiles(root).begin(len(data))
    await draft.write(memoryview(data))
    await draft.commit(hashlib.md5(data).hexdigest())
    assert await SingleFiles(root).get(hashlib.md5(data).hexdigest()) == data


async def test_a_draft_on_a_full_disk_is_refused(root: Path) -> None:
    with pytest.raises(Full):
        await SingleFiles(root, reserve=1 << 60).begin(3)


async def test_a_disk_that_stands_still_is_given_up(root: Path) -> None:
    volume = SingleFiles(root, patience=0.01)
    release = threading.Event()
    with pytest.raises(Unavailable, match="has not answered"):
        await volume.run(release.wait)
    release.set()
    await volume.close()


async def test_the_bin_keeps_to_what_was_seen_under_the_lock(root: Path) -> None:
    """A put and a discard of one block at once, in many orders: what was acknowledged last is
    there.
    """
    volume, other = SingleFiles(root), SingleFiles(root)
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
    volume = SingleFiles(root)
    await volume.put(FOO, b"foo")
    (root / FOO[:3] / FOO).write_bytes(b"fxo")
    await volume.quarantine(FOO, (await volume.head(FOO)).mtime_ns)
    assert (root / "damaged" / FOO).read_bytes() == b"fxo"
    with pytest.raises(Corrupt, match="taken out of use"):
        await volume.get(FOO)

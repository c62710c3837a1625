"""A mount in this process: the kernel, libfuse and the binding, over a tree and blocks made up
here.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lading.client.caches.content_caches import BlockFiles
from lading.client.mount import mount_points
from lading.client.mount.layout import Fixed
from lading.client.mount.nodes import Text
from lading.client.mount.open_blocks import LoopBridge, OpenBlocks
from lading.client.mount.operations import Operations
from lading.core.data.filetree import File, FileTree, Segment
from tests.reality import need

BIG = bytes(range(256)) * 8000
DIGEST = hashlib.md5(BIG, usedforsecurity=False).hexdigest()
FILES = 300


async def _fetch(locator: str, descriptor: int) -> None:
    with open(descriptor, "wb", closefd=False) as file:
        file.write(BIG)


@pytest.fixture
async def mounted(tmp_path: Path) -> AsyncGenerator[Path]:
    need(os.access("/dev/fuse", os.R_OK | os.W_OK), "/dev/fuse")
    from lading.client.mount.fuse import FuseSettings, FuseThread

    big = File((Segment(f"{DIGEST}+{len(BIG)}", 0, len(BIG)),))
    many = FileTree({f"file {number}": big for number in range(FILES)})
    root = Fixed(
        {
            "README": Text(b"read me\n"),
            "tree": FileTree({"big": big, "empty": File(), "many": many}),
        },
        7.25,
    )
    bridge = LoopBridge(asyncio.get_running_loop(), 10.0)
    blocks = OpenBlocks(BlockFiles(tmp_path / "blocks", 1 << 30, fetch=_fetch), bridge)
    there, gone, place = threading.Event(), threading.Event(), tmp_path / "mount"
    place.mkdir()
    settings = FuseSettings(mountpoint=str(place))
    thread = FuseThread(
        Operations(root, blocks, bridge), settings, on_mounted=there.set, on_end=gone.set
    )
    thread.start()
    assert await asyncio.to_thread(there.wait, 10)
    yield place
    await asyncio.to_thread(mount_points.unmount, place)
    assert await asyncio.to_thread(thread.join, 10)
    assert gone.is_set()
    assert thread.code == 0
    await blocks.close()


def _look(place: Path) -> None:
    assert sorted(path.name for path in place.iterdir()) == ["README", "tree"]
    assert (place / "README").read_bytes() == b"read me\n"
    assert (place / "tree" / "big").read_bytes() == BIG
    assert (place / "tree" / "empty").read_bytes() == b""
    state = (place / "tree" / "big").stat()
    assert (state.st_size, state.st_mtime, state.st_uid) == (len(BIG), 7.25, os.getuid())
    assert len(list((place / "tree" / "many").iterdir())) == FILES
    with (place / "tree" / "big").open("rb") as file:
        assert os.fstat(file.fileno()).st_mtime == 7.25
        file.seek(1_000_003)
        assert file.read(1000) == BIG[1_000_003:1_001_003]
    assert os.statvfs(place).f_namemax == 255


def _fail(place: Path) -> list[int | None]:
    numbers = []
    for attempt in (
        lambda: (place / "absent").stat(),
        lambda: (place / "README" / "below").stat(),
        lambda: (place / "new").write_bytes(b""),
        lambda: (place / "tree" / "big").unlink(),
    ):
        try:
            attempt()
        except OSError as error:
            numbers.append(error.errno)
    return numbers


async def test_the_kernel_reads_what_is_there(mounted: Path) -> None:
    await asyncio.to_thread(_look, mounted)
    assert mount_points.kind_of(mounted) == "fuse.lading"


async def test_the_kernel_is_told_what_is_not(mounted: Path) -> None:
    assert await asyncio.to_thread(_fail, mounted) == [
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EROFS,
        errno.EROFS,
    ]


async def test_several_read_at_a_time(mounted: Path) -> None:
    # Not the loop's own threads: the mount needs those to answer.
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(8) as readers:
        paths = [mounted / "tree" / "many" / f"file {number}" for number in range(8)]
        assert (
            await asyncio.gather(
                *(loop.run_in_executor(readers, path.read_bytes) for path in paths)
            )
            == [BIG] * 8
        )

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest

from lading.client.caches.content_caches import BlockFiles
from lading.client.mount.layout import Fixed
from lading.client.mount.nodes import Node, Text
from lading.client.mount.open_blocks import LoopBridge, OpenBlocks
from lading.client.mount.operations import Operations
from lading.core.data.filetree import File, FileTree, Segment
from lading.core.errors import Forbidden, LadingError, NotFound, Unavailable

DATA = b"hello"
DIGEST = hashlib.md5(DATA, usedforsecurity=False).hexdigest()
HELLO = File((Segment(f"{DIGEST}+5", 0, 5),))
GONE = File((Segment(f"{'0' * 32}+5", 0, 5),))


class Broken:
    """A directory whose server says no."""

    modified = 1.0
    renew = None

    def __init__(self, error: LadingError) -> None:
        self._error = error

    def peek(self, name: str) -> Node | None:
        raise AssertionError("the root is fixed")

    async def find(self, name: str) -> Node | None:
        raise self._error

    async def list(self) -> Mapping[str, Node]:
        raise self._error


class Asking(Broken):
    """As Broken, and knows nothing by itself."""

    def peek(self, name: str) -> Node | None:
        from lading.client.mount.nodes import Unknown

        raise Unknown


async def _fetch(locator: str, descriptor: int) -> None:
    if not locator.startswith(DIGEST):
        raise NotFound(f"{locator}: no such block")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(DATA)


@pytest.fixture
def entries() -> dict[str, Node]:
    """What is in the root directory."""
    return {
        "tree": FileTree({"hello": HELLO, "gone": GONE, "sub": FileTree()}),
        "README": Text(b"read me"),
        ".arvados#project": Text(b"{}"),
        "forbidden": Asking(Forbidden("not yours")),
        "silent": Asking(Unavailable("no answer")),
        "absent": Asking(NotFound("no such thing")),
    }


@pytest.fixture
async def operations(
    request: pytest.FixtureRequest, tmp_path: Path, entries: dict[str, Node]
) -> AsyncGenerator[Operations]:
    bridge = LoopBridge(asyncio.get_running_loop(), 5.0)
    blocks = OpenBlocks(BlockFiles(tmp_path, 1 << 20, fetch=_fetch), bridge)
    yield Operations(Fixed(entries, 2.5), blocks, bridge, most=getattr(request, "param", 1024))
    await blocks.close()


async def _read(operations: Operations, path: str, size: int = 100, offset: int = 0) -> bytes:
    target = bytearray(size)

    done = await asyncio.to_thread(operations.read, path, memoryview(target), offset)
    return bytes(target[:done])


async def _names(operations: Operations, path: str) -> list[str]:
    def work() -> list[str]:
        number = operations.open_directory(path)
        names = [name for name, _ in operations.names(number)]
        operations.close_directory(number)
        return names

    return await asyncio.to_thread(work)


async def _failure(work: object) -> int | None:
    with pytest.raises(OSError) as caught:
        await work  # type: ignore[misc]
    return caught.value.errno


def test_what_stat_says(operations: Operations) -> None:
    assert operations.status("/").mode == 0o40555
    hello = operations.status("/tree/hello")
    assert (hello.mode, hello.size, hello.modified) == (0o100555, 5, 2_500_000_000)
    assert operations.status("/README").size == 7


async def test_files_are_read(operations: Operations) -> None:
    assert await _read(operations, "/tree/hello") == DATA
    assert await _read(operations, "/tree/hello", 2, 3) == b"lo"
    assert await _read(operations, "/README", 4, 5) == b"me"
    assert operations.counts.bytes_read == 7
    assert operations.counts.calls["read"] == 3


async def test_names_are_listed_but_hidden_ones(operations: Operations) -> None:
    assert "README" in await _names(operations, "/")
    assert ".arvados#project" not in await _names(operations, "/")
    assert await _read(operations, "/.arvados#project") == b"{}"
    assert await _names(operations, "/tree") == ["hello", "gone", "sub"]


async def test_a_path_that_leads_to_another_file_is_read_anew(
    operations: Operations, entries: dict[str, Node]
) -> None:
    assert await _read(operations, "/tree/hello") == DATA
    entries["tree"] = FileTree({"hello": File((Segment(f"{DIGEST}+5", 1, 2),))})
    assert await _read(operations, "/tree/hello") == b"el"


@pytest.mark.parametrize("error", [Unavailable("no answer"), NotFound("deleted")])
async def test_what_is_being_read_goes_on_being_read(
    operations: Operations, entries: dict[str, Node], error: LadingError
) -> None:
    assert await _read(operations, "/tree/hello", 2) == b"he"
    entries["tree"] = Asking(error)
    assert await _read(operations, "/tree/hello", 3, 2) == b"llo"
    assert await _failure(_read(operations, "/tree/other")) in (errno.EIO, errno.ENOENT)


@pytest.mark.parametrize("operations", [2], indirect=True, ids=["two"])
async def test_few_files_are_remembered(operations: Operations, entries: dict[str, Node]) -> None:
    entries["tree"] = FileTree({str(number): HELLO for number in range(5)})
    for number in (0, 1, 2, 0, 3):
        assert await _read(operations, f"/tree/{number}") == DATA
    # Only a file that is remembered can be read when the server does not answer.
    entries["tree"] = Asking(Unavailable("no answer"))
    for number in (0, 3):
        assert await _read(operations, f"/tree/{number}") == DATA
    for number in (1, 2, 4):
        assert await _failure(_read(operations, f"/tree/{number}")) == errno.EIO


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/nothing", errno.ENOENT),
        ("/tree/hello/below", errno.ENOENT),
        ("/absent/x", errno.ENOENT),
        ("/forbidden/x", errno.EACCES),
        ("/silent/x", errno.EIO),
        ("/tree", errno.EISDIR),
        ("/tree/gone", errno.EIO),
    ],
)
async def test_files_that_cannot_be_read(
    operations: Operations, path: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert await _failure(_read(operations, path)) == number
    if number == errno.EIO:
        assert "failed: " in caplog.text
        assert operations.counts.failed == 1


async def test_a_lost_block_is_named_in_the_log(
    operations: Operations, caplog: pytest.LogCaptureFixture
) -> None:
    assert await _failure(_read(operations, "/tree/gone")) == errno.EIO
    assert f"{'0' * 32}+5: no such block" in caplog.text


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/README", errno.ENOTDIR),
        ("/nothing", errno.ENOENT),
        ("/silent", errno.EIO),
        ("/forbidden", errno.EACCES),
    ],
)
async def test_directories_that_cannot_be_listed(
    operations: Operations, path: str, number: int
) -> None:
    assert await _failure(_names(operations, path)) == number

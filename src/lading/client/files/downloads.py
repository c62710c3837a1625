"""Downloads files of collections, one or a whole tree, each whole or not at all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path

from lading.client.block_cache import BlockCache
from lading.client.blocks import BlockClient
from lading.client.files.collections import BLOCKS_IN_FLIGHT
from lading.client.files.local_files import SafeWriter
from lading.core.data import filetree
from lading.core.data import locator as locators
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Corrupt

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all, from the event loop."""
# Downloaded files up to this size are written in batches of at most _BATCH_BYTES and _BATCH_FILES,
# one thread call each.
_SMALL_FILE = 1 << 18
# Enough to make the cost of a thread small; little memory for each connection.
_BATCH_BYTES = 8 << 20
_BATCH_FILES = 256


async def read_file(blocks: BlockClient, file: File) -> AsyncGenerator[bytes]:
    """The bytes of a file in pieces; the next block is fetched ahead. Raises as
    `BlockClient.get`.
    """
    async with aclosing(read_files(blocks, [file])) as pieces:
        async for _, piece in pieces:
            yield piece


async def download(
    blocks: BlockClient,
    tree: FileTree,
    target: Path,
    *,
    progress: Progress | None = None,
    landed: Callable[[Iterable[str]], None] | None = None,
) -> None:
    """Write all files and directories of a tree below `target`, which is created if absent.

    `landed` is called in a thread with the paths of complete files. Existing files are replaced
    atomically. Nothing is written outside `target`: a symbolic link on the way is refused. Raises
    Conflict where a link, or a file in place of a directory or the reverse, is in the way, and,
    before anything is written, where the file system takes two names of the tree for one.
    """
    writer = await asyncio.to_thread(SafeWriter, target)
    try:
        await asyncio.to_thread(writer.check_names, tree)
        folders = [path for path, node in filetree.walk(tree) if isinstance(node, FileTree)]
        await asyncio.to_thread(writer.make_folders, folders)
        await _download(blocks, list(filetree.files(tree)), writer, progress, landed or _nothing)
    finally:
        await asyncio.to_thread(writer.close)


async def download_file(
    blocks: BlockClient, file: File, target: Path, *, progress: Progress | None = None
) -> None:
    """Write one file to `target`, whole or not at all. Raises as `download`."""
    writer = await asyncio.to_thread(SafeWriter, target.parent)
    try:
        await _download(blocks, [(target.name, file)], writer, progress, _nothing)
    finally:
        await asyncio.to_thread(writer.close)


async def _download(
    blocks: BlockClient,
    files: list[tuple[str, File]],
    writer: SafeWriter,
    progress: Progress | None,
    landed: Callable[[Iterable[str]], None],
) -> None:
    total, done = sum(file.size for _, file in files), 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        if progress:
            progress(done, total)

    await _download_pieces(
        blocks, [entry for entry in files if not _is_whole(entry[1])], writer, advance, landed
    )
    for path, file in files:
        if _is_whole(file):
            await _download_whole(blocks, path, file, writer, advance)
            await asyncio.to_thread(landed, [path])


def _is_whole(file: File) -> bool:
    """Whether a file is made of whole, different blocks, each of which can be written to its place
    in the file without a look at the others.
    """
    blocks = [locators.parse(segment.locator) for segment in file.segments]
    return (
        file.size > _SMALL_FILE
        and len({block.hash for block in blocks}) == len(blocks)
        and all(
            (0, block.size) == (segment.offset, segment.length)
            for block, segment in zip(blocks, file.segments, strict=True)
        )
    )


async def _download_whole(
    blocks: BlockClient, path: str, file: File, writer: SafeWriter, advance: Callable[[int], None]
) -> None:
    """Write a file of whole blocks, BLOCKS_IN_FLIGHT at a time, past the memory for blocks."""
    descriptor = await asyncio.to_thread(writer.begin, path, file.size)
    starts = itertools.accumulate((segment.length for segment in file.segments), initial=0)
    left = iter(zip(file.segments, starts, strict=False))

    async def work() -> None:
        for segment, start in left:
            await blocks.save(segment.locator, descriptor, start)
            advance(segment.length)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(BLOCKS_IN_FLIGHT):
                group.create_task(work(), name=f"get {path}")
    except BaseExceptionGroup as errors:
        error = errors.exceptions[0]
        if isinstance(error, OSError):
            raise writer.failure(error, path) from error
        raise error from None
    await asyncio.to_thread(writer.land)


async def _download_pieces(
    blocks: BlockClient,
    files: list[tuple[str, File]],
    writer: SafeWriter,
    advance: Callable[[int], None],
    landed: Callable[[Iterable[str]], None],
) -> None:
    # Pieces of small files that are not written yet, by path; empty files have none.
    gathered: dict[str, list[bytes]] = {path: [] for path, file in files if not file.size}
    size = 0

    def write(complete: dict[str, list[bytes]]) -> None:
        writer.write(complete)
        landed(complete)

    def append(path: str, piece: bytes, length: int) -> None:
        if writer.append(path, piece, length):
            landed([path])

    async with aclosing(read_files(blocks, [file for _, file in files])) as pieces:
        async for number, piece in pieces:
            path, file = files[number]
            # Large files are written as they come; small ones are gathered, since a change of
            # thread costs more than their bytes.
            if file.size > _SMALL_FILE:
                await asyncio.to_thread(append, path, piece, file.size)
            else:
                gathered.setdefault(path, []).append(piece)
                size += len(piece)
            advance(len(piece))
            # The current file stays for the next batch: more pieces of it may follow.
            if size > _BATCH_BYTES or len(gathered) > _BATCH_FILES:
                complete = {name: gathered[name] for name in gathered if name != path}
                kept = gathered.get(path)
                await asyncio.to_thread(write, complete)
                gathered = {} if kept is None else {path: kept}
                size = sum(map(len, kept or ()))
    await asyncio.to_thread(write, gathered)


def _nothing(_: Iterable[str]) -> None:
    """Default for `landed`."""


async def read_files(
    blocks: BlockClient, files: Sequence[File]
) -> AsyncGenerator[tuple[int, bytes]]:
    """The pieces of several files in order, each with the number of its file. Raises as
    `BlockClient.get`.
    """
    wanted = [(number, segment) for number, file in enumerate(files) for segment in file.segments]
    following = _following([segment.locator for _, segment in wanted])
    cache = BlockCache(blocks)
    try:
        for (number, segment), ahead in zip(wanted, following, strict=True):
            cache.expect(segment.locator)
            if ahead:
                cache.expect(ahead)
            data = await cache.get(segment.locator)
            # A manifest may name more bytes than a block has.
            piece = data[segment.offset : segment.offset + segment.length]
            if len(piece) != segment.length:
                raise Corrupt(
                    f"{segment.locator[:32]}: the file reaches beyond "
                    f"this block of {len(data)} bytes"
                )
            yield number, piece
    finally:
        await cache.close()


def _following(locators: Sequence[str]) -> list[str]:
    """For each locator the next one in the list that names another block, or "" at the end."""
    found, after = [], ""
    for at in range(len(locators) - 1, -1, -1):
        if at + 1 < len(locators) and locators[at + 1][:32] != locators[at][:32]:
            after = locators[at + 1]
        found.append(after)
    return found[::-1]

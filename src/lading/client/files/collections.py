"""Uploads files into collections: packs their bytes into blocks, and makes the manifest.

Small files of a directory are packed together into blocks in the order in which they are added,
large files are cut into blocks of 64 MiB, and at most two blocks are sent while the next is filled.
The same files added in the same order give the same manifest. Stored data is added by reference.
Source: docs/spec/api, section Manifests.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from lading.client.file_parts import Holes
from lading.client.files.local_files import SMALL, SmallFiles
from lading.core.data import filetree, tree_changes
from lading.core.data.filetree import File, FileTree, Node, Segment
from lading.core.data.locator import MAX_BLOCK
from lading.core.data.packing import SHARED
from lading.core.errors import Invalid, TooLarge
from lading.process.cancellation import Stop, Stopped
from lading.process.concurrency import in_thread
from lading.process.confined import open_regular

# Blocks that are sent at a time while the next is filled: at most three blocks are in memory.
BLOCKS_IN_FLIGHT = 2
# Small files up to this number are read in the event loop.
_FEW = 64
# Bytes read at a time; the reader can be stopped between two of them.
_PIECE = 4 << 20
_STRIDE = 256
"""Blocks of a hole that are added before other tasks may run."""
_MANY = 2000
"""Files whose manifest is written in the event loop, about 10 ms of work; more are written in a
thread.
"""
_EMPTY = File()


class BlockSink(Protocol):
    """Storage of blocks for a writer; `BlockClient` implements it."""

    async def put(self, data: bytes | bytearray) -> str:
        """Store a block; return its locator for the manifest."""

    async def put_part(self, descriptor: int, start: int, length: int, /) -> str:
        """Store a part of an open file; as `put`."""


class _Run(NamedTuple):
    """Small files of one directory, in one block from the offset `start` on."""

    path: str
    names: Sequence[str]
    lengths: Sequence[int]
    block: int
    start: int


class CollectionWriter:
    """Collects files and makes the manifest. Leaving `async with` early cancels running transfers.

    `most`: bytes that may be added, 0 for no limit; more raise TooLarge before they are read or
    stored. `pack`: size of the largest packed block of small files; up to three times that is held
    in memory.
    """

    def __init__(self, blocks: BlockSink, *, pack: int = MAX_BLOCK, most: int = 0) -> None:
        self.size = 0
        """Bytes of all files added, without those added by reference; a file that is being read
        counts as a whole.
        """
        self._most = most
        self._blocks = blocks
        # A file above half a packed block gets blocks of its own.
        self._pack, self._large = pack, pack // 2
        self._nodes: dict[str, Node] = {}
        self._trees: list[FileTree] = []
        self._pieces: dict[str, list[tuple[int, int, int]]] = {}
        self._runs: list[_Run] = []
        self._locators: list[str] = []
        # Number of the stored block of zeros, by length.
        self._zeros: dict[int, int] = {}
        self._buffer = bytearray()
        self._directory = ""
        self._flights: deque[asyncio.Task[None]] = deque()
        self._descriptors: set[int] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for flight in self._flights:
            flight.cancel()
        await asyncio.gather(*self._flights, return_exceptions=True)
        self._flights.clear()
        # Descriptors of transfers that were cancelled before they started.
        for descriptor in self._descriptors:
            os.close(descriptor)

    async def add_bytes(self, path: str, data: bytes | bytearray) -> None:
        """Add a file with these bytes. Raises Invalid for a path that is malformed or was added
        before.
        """
        self._claim(path)
        self._count(len(data))
        await self._add(path, data)

    async def add_file(
        self,
        path: str,
        source: Path,
        *,
        cuts: Sequence[int] = (),
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add a file from disk; `progress` is called with the bytes of each piece. Raises as
        `add_bytes`.

        Large files are read in pieces. A block begins at each of the offsets `cuts`.
        """
        try:
            file = await asyncio.to_thread(source.open, "rb", 0)
        except OSError as error:
            raise Invalid(f"{source}: cannot be read: {error.strerror}") from error
        with file:
            await self.add_open_file(path, file.fileno(), cuts=cuts, progress=progress)

    async def add_open_file(
        self,
        path: str,
        descriptor: int,
        *,
        cuts: Sequence[int] = (),
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Variant of `add_file` for an open file, read from its beginning; it stays open. Raises
        OSError too.
        """
        self._claim(path)
        found = os.fstat(descriptor)
        self._count(found.st_size)
        if stat.S_ISREG(found.st_mode) and (found.st_size > self._large or cuts):
            await self._add_parts(path, descriptor, _parts(found.st_size, cuts), progress)
            return
        while True:
            data = await in_thread(_read_block, descriptor)
            if data:
                # The last part of a large file gets a block of its own, so that the block does not
                # depend on the file's neighbours.
                await self._add(path, data, alone=bool(self._pieces[path]))
            if data and progress:
                progress(len(data))
            if len(data) < MAX_BLOCK:
                return

    async def add_folder(self, path: str, source: int, names: Sequence[str]) -> None:
        """Add regular files of a directory of the disk, by name, to the directory `path` of the
        collection.

        `source` is a descriptor of the directory, which stays open: no link is followed, even if
        others change the directory meanwhile. As `add_file` for each, but much faster for many
        small files; `finish` reports a path that was added twice. Raises Invalid for a malformed
        path or name, OSError with the name of a file that cannot be read.
        """
        if path:
            filetree.check_path(path)
        filetree.check_names(names)
        if path != self._directory and len(self._buffer) >= SHARED:
            await self._flush()
        self._directory = path
        folder = SmallFiles(names)
        while folder.position < len(names):
            if not await self._add_run(path, folder, source):
                name = names[folder.position]
                folder.position += 1
                descriptor = open_regular(name, source)
                try:
                    await self.add_open_file(f"{path}/{name}" if path else name, descriptor)
                finally:
                    os.close(descriptor)

    async def _add_run(self, path: str, folder: SmallFiles, source: int) -> bool:
        """Add the next small files, as many as fit into a block. False if the next file is not
        small.
        """
        if len(self._buffer) + SMALL > self._pack:
            await self._flush()
        # The open block gets the next number: no other block is started before it is flushed.
        first, start, block = folder.position, len(self._buffer), len(self._locators)
        if len(folder.names) - first > _FEW:
            buffer, pack = self._buffer, self._pack
            lengths = await in_thread(
                lambda stop, own: folder.read(own[0], buffer, pack, stop=stop), source
            )
        else:
            # Starting a thread takes longer than reading a few files.
            lengths = folder.read(source, self._buffer, self._pack)
        if lengths:
            self._count(sum(lengths))
            self._runs.append(
                _Run(path, folder.names[first : folder.position], lengths, block, start)
            )
        return bool(lengths)

    def add_tree(self, path: str, node: Node) -> None:
        """Add stored files by reference; a directory is merged with the one that is there.

        Raises Invalid for a malformed path, and for a file that was added before.
        """
        if isinstance(node, FileTree):
            self._trees.append(tree_changes.place(FileTree(), path, node))
        else:
            self._refuse_known(path)
            self._nodes[path] = node

    def add_directory(self, path: str) -> None:
        """Add an empty directory; it is kept in the manifest if nothing is added to it. Raises
        Invalid for a malformed path.
        """
        self._trees.append(tree_changes.place(FileTree(), path, FileTree()))

    async def finish(self) -> str:
        """Store the remaining blocks; return the signed, normalised manifest. Raises Invalid when
        two paths clash.
        """
        await self._settle()
        if self._is_large:
            # The rendering of very many files takes seconds, which would block the event loop.
            return await asyncio.to_thread(lambda: filetree.to_manifest(self._make_tree()))
        return filetree.to_manifest(self._make_tree())

    async def finish_tree(self) -> FileTree:
        """Like `finish`, but returns the tree."""
        await self._settle()
        return await asyncio.to_thread(self._make_tree) if self._is_large else self._make_tree()

    async def _settle(self) -> None:
        """Store the remaining blocks and wait for all transfers."""
        await self._flush()
        while self._flights:
            await self._flights.popleft()

    @property
    def _is_large(self) -> bool:
        return len(self._pieces) + sum(len(run.names) for run in self._runs) > _MANY or bool(
            self._trees
        )

    def _make_tree(self) -> FileTree:
        """The tree of everything that was added and stored. Raises Invalid."""
        nodes = dict(self._nodes)
        for path, pieces in self._pieces.items():
            nodes[path] = File(
                tuple(Segment(self._locators[block], at, length) for block, at, length in pieces)
            )
        for path, entries in self._folders().items():
            if path in nodes:
                raise Invalid(f"{path}: added as a file and as a directory")
            nodes[path] = FileTree(entries)
        tree = filetree.from_files(nodes)
        for added in self._trees:
            tree = tree_changes.merge(tree, added)
        return tree

    def _folders(self) -> dict[str, dict[str, Node]]:
        """The files of all runs, by directory and name."""
        folders: dict[str, dict[str, Node]] = {}
        for run in self._runs:
            entries = folders.setdefault(run.path, {})
            # A block that was never started holds empty files only.
            locator = self._locators[run.block] if run.block < len(self._locators) else ""
            count, at = len(entries), run.start
            for name, length in zip(run.names, run.lengths, strict=True):
                entries[name] = File((Segment(locator, at, length),)) if length else _EMPTY
                at += length
            if len(entries) != count + len(run.names):
                raise Invalid(f"{run.path or 'the top'}: a file in it was added twice")
        return folders

    def _count(self, size: int) -> None:
        self.size += size
        if 0 < self._most < self.size:
            raise TooLarge(f"{self.size} bytes are more than the {self._most} that may be added")

    def _claim(self, path: str) -> None:
        self._refuse_known(path)
        self._pieces[path] = []

    def _refuse_known(self, path: str) -> None:
        filetree.check_path(path)
        if path in self._pieces or path in self._nodes:
            raise Invalid(f"{path}: added twice")

    async def _add(self, path: str, data: bytes | bytearray, *, alone: bool = False) -> None:
        if len(data) > self._large or alone:
            await self._flush()
            for start in range(0, len(data), MAX_BLOCK):
                block = data if len(data) <= MAX_BLOCK else data[start : start + MAX_BLOCK]
                self._pieces[path].append((len(self._locators), 0, len(block)))
                await self._launch(functools.partial(self._blocks.put, block))
            return
        directory = path.rpartition("/")[0]
        apart = directory != self._directory and len(self._buffer) >= SHARED
        if apart or len(self._buffer) + len(data) > self._pack:
            await self._flush()
        self._directory = directory
        if data:
            # The open block gets the next number: no other block is started before it is flushed.
            self._pieces[path].append((len(self._locators), len(self._buffer), len(data)))
            self._buffer += data

    async def _add_parts(
        self,
        path: str,
        descriptor: int,
        parts: Iterable[tuple[int, int]],
        progress: Callable[[int], None] | None,
    ) -> None:
        await self._flush()
        holes = Holes(descriptor)
        for number, (start, length) in enumerate(parts):
            empty = holes.cover(start, length)
            if empty and length in self._zeros:
                # All blocks of a hole are equal: the first one is stored, the others refer to it.
                self._pieces[path].append((self._zeros[length], 0, length))
                if progress:
                    progress(length)
                if number % _STRIDE == 0:
                    await asyncio.sleep(0)
                continue
            if empty:
                self._zeros[length] = len(self._locators)
            self._pieces[path].append((len(self._locators), 0, length))
            # Its own descriptor: the caller may close the file while the block is sent.
            mine = os.dup(descriptor)
            self._descriptors.add(mine)
            await self._launch(functools.partial(self._put_part, mine, start, length))
            if progress:
                progress(length)

    async def _put_part(self, descriptor: int, start: int, length: int) -> str:
        try:
            return await self._blocks.put_part(descriptor, start, length)
        finally:
            self._descriptors.remove(descriptor)
            os.close(descriptor)

    async def _flush(self) -> None:
        if self._buffer:
            data, self._buffer = self._buffer, bytearray()
            await self._launch(functools.partial(self._blocks.put, data))

    async def _launch(self, put: Callable[[], Awaitable[str]]) -> None:
        number = len(self._locators)
        self._locators.append("")
        # Waits for the oldest transfer; its error is raised here.
        while len(self._flights) >= BLOCKS_IN_FLIGHT:
            await self._flights.popleft()
        self._flights.append(
            asyncio.create_task(self._put(number, put), name=f"put block {number}")
        )

    async def _put(self, number: int, put: Callable[[], Awaitable[str]]) -> None:
        self._locators[number] = await put()


def _parts(size: int, cuts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Start and length of each block of a file that is cut at these offsets."""
    bounds = sorted({0, size, *(cut for cut in cuts if 0 < cut < size)})
    for first, last in itertools.pairwise(bounds):
        for start in range(first, last, MAX_BLOCK):
            yield start, min(MAX_BLOCK, last - start)


def _read_block(stop: Stop, descriptors: tuple[int, ...]) -> bytes | bytearray:
    """The next block of an open file, from its current position."""
    (descriptor,), data = descriptors, bytearray()
    while len(data) < MAX_BLOCK:
        if stop():
            raise Stopped
        piece = os.read(descriptor, min(_PIECE, MAX_BLOCK - len(data)))
        if not piece:
            break
        data += piece
    return data

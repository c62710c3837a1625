"""Resumable uploads: files are hashed first, and only missing blocks are sent.

The blocks are planned from names and sizes alone (`core.data.packing`). Each block is hashed once
here and sent under this hash, which the store verifies. Blocks of unchanged files (same size, times
and inode) have their hash in the journal (`upload_journal`) and are not read again, and blocks that
the store has acknowledged for this token are not sent again. A file that changes while it is read
is refused, as a content would be stored that the file never had.

Memory grows with the number of blocks, not of files; of the bytes of files at most `_ROOM` are in
memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from array import array
from bisect import bisect_right
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from lading.client.blocks import BlockClient, hash_block, hash_part
from lading.client.files.downloads import Progress
from lading.client.files.listed_files import ListedFile, Listing, stamp_of
from lading.client.files.listing import LinkPolicy, list_sources
from lading.client.files.upload_journal import UploadJournal
from lading.core.data import locator as locators
from lading.core.data import packing
from lading.core.data.locator import MAX_BLOCK
from lading.core.data.manifest import Digest
from lading.core.data.packing import PackedBlock
from lading.core.errors import Invalid, Malformed
from lading.process.portable import AS_BYTES, NO_INHERIT, NO_WAIT, read_at

# Blocks that are hashed or sent at a time.
_AT_ONCE = 2
# Bytes read at a time.
_PIECE = 1 << 20
# Bytes of packed blocks that stay in memory between hashing and sending, so that their small files
# are read once.
_KEPT = MAX_BLOCK
# One block is hashed and sent while the next one fills.
_ROOM = 2 * MAX_BLOCK
# Nanoseconds: a file that was changed this shortly before it was read may change again with equal
# times, so its hash is not journalled.
_YOUNG = 100_000_000
# Seconds that a signature must still be valid, so that it lasts until the collection is created.
_MARGIN = 900


class Upload:
    """One upload of files and directories, each at its path; "" is the root. `links` says what
    becomes of symbolic links, and of entries that cannot be stored.

    Call `look`, `hash`, then `send` if the content is not stored; use it as a context manager.
    Blocks of `pack` bytes hold small files; `most_bytes` of them stay in memory between `hash` and
    `send`, which uses at most `room` bytes. Raises Invalid naming a source that cannot be read, is
    neither file nor directory, or changes meanwhile.
    """

    def __init__(
        self,
        sources: Mapping[str, Path],
        *,
        journal: UploadJournal | None = None,
        links: LinkPolicy = LinkPolicy.FOLLOW,
        clock: Callable[[], int] = time.time_ns,
        pack: int = MAX_BLOCK,
        most_bytes: int = _KEPT,
        room: int = _ROOM,
    ) -> None:
        self._sources, self._keeps, self._links = sources, most_bytes, links
        self._journal = journal or UploadJournal()
        self._clock = clock
        self._pack = pack
        self._listing = Listing()
        self._blocks: list[PackedBlock] = []
        self._places: list[int] = []
        self._keys: list[str] = []
        self._hashes: list[str] = []
        self._block_bytes: dict[int, bytearray] = {}
        self._room = _Room(room)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._block_bytes.clear()
        self._listing.close()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Lines about entries that were left out, or stored under another name."""
        listing = self._listing
        left_out = (f"left out: {line}" for line in listing.omitted.lines())
        return (*left_out, *listing.renamed.lines())

    @property
    def keys(self) -> Sequence[str]:
        """Keys of the blocks of this upload in the journal."""
        return self._keys

    async def look(self) -> None:
        """List the files and plan their blocks. Raises Full when the disk has no room for the
        list.
        """
        self._listing.close()
        await asyncio.to_thread(self._look)
        self._hashes = [self._journal.blocks.get(key, "") for key in self._keys]

    async def hash(self, *, progress: Progress | None = None) -> str:
        """Hash the blocks without a known hash; return the portable data hash of the collection."""
        advance, kept = self._advance(progress), 0

        async def work(number: int) -> None:
            nonlocal kept
            if not self._hashes[number]:
                young, block = self._clock() - _YOUNG, self._blocks[number]
                keep = block.is_packed and kept + block.length <= self._keeps
                # Counted before the await: the other worker must not use the same room.
                kept += block.length if keep else 0
                self._hashes[number], changed = await asyncio.to_thread(self._hash, number, keep)
                if changed < young:
                    self._journal.note_block(self._keys[number], self._hashes[number])
            advance(number)

        await _each(range(len(self._blocks)), work)
        return await asyncio.to_thread(self._portable_data_hash)

    async def send(
        self,
        blocks: BlockClient,
        *,
        stored: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[str]:
        """Send the blocks that the store does not have; return the signed manifest in pieces.

        `stored`: locators, signed for this token, by hash and size. Raises as `BlockClient.put`
        too.
        """
        advance = self._advance(progress)
        have = {**self._journal.locators, **(stored or {})}
        until = self._clock() // 1_000_000_000 + _MARGIN
        have = {
            block: locator for block, locator in have.items() if locators.expiry_of(locator) > until
        }

        async def work(number: int) -> None:
            block = self._hashes[number]
            if block not in have:
                have[block] = await self._put(blocks, number)
                self._journal.note_locator(have[block])
            self._block_bytes.pop(number, None)
            advance(number)

        await _each(range(len(self._blocks)), work)
        return self._manifest([have[block] for block in self._hashes])

    def _look(self) -> None:
        self._listing = list_sources(self._sources, links=self._links)
        self._plan()

    def _plan(self) -> None:
        """Plan the blocks, find the offset in the listing at which each begins, and name each for
        the journal.
        """
        firsts, offsets = array("q"), array("q")

        def files() -> Iterator[tuple[str, int]]:
            for offset, folder in self._listing.placed():
                # A block begins at one of the folders that were read since the previous block
                # began; older ones are deleted below.
                firsts.append(folder.first)
                offsets.append(offset)
                for size in folder.sizes:
                    yield folder.path, size

        self._blocks, self._places = [], []
        for block in packing.plan(files(), pack=self._pack):
            begun = bisect_right(firsts, block.first) - 1
            del firsts[:begun], offsets[:begun]
            self._blocks.append(block)
            self._places.append(offsets[0])
        self._keys = [self._key(number) for number in range(len(self._blocks))]

    def _manifest(self, locators: Sequence[str]) -> Iterator[str]:
        return packing.write_manifest(self._listing.folders(), self._blocks, locators)

    def _portable_data_hash(self) -> str:
        digest = Digest()
        for piece in self._manifest(self._hashes):
            digest.update(piece)
        return str(digest)

    def _advance(self, progress: Progress | None) -> Callable[[int], None]:
        done, size = 0, self._listing.size

        def advance(number: int) -> None:
            nonlocal done
            done += self._blocks[number].length
            if progress:
                progress(done, size)

        return advance

    def _files(self, number: int) -> Iterator[tuple[ListedFile, int, int]]:
        """The files of a block that have bytes in it, each with the offset and number of these
        bytes.
        """
        block = self._blocks[number]
        for file in self._listing.found(self._places[number], block.first, block.end):
            if block.is_packed and file.size:
                yield file, 0, file.size
            elif not block.is_packed:
                yield file, block.start, block.length

    def _key(self, number: int) -> str:
        digest, here = hashlib.sha256(), Path.cwd()
        for file, start, length in self._files(number):
            # The length of the path separates it from the next entry.
            digest.update(f"{file.stamp} {start} {length} {len(file.source)} ".encode())
            path = file.source if file.source.startswith("/") else f"{here}/{file.source}"
            digest.update(os.fsencode(path))
        return digest.hexdigest()[:32]

    def _hash(self, number: int, keep: bool) -> tuple[str, int]:
        """Hash and size of a block, and the time of the last change of its files (ns since
        1970).
        """
        changed = 0
        content, digest = bytearray(), hashlib.md5(usedforsecurity=False)
        for file, start, length in self._files(number):
            changed = max(changed, *file.stamp[1:3])
            for piece in _read_part(file, start, length):
                digest.update(piece)
                if keep:
                    content += piece
        if keep:
            self._block_bytes[number] = content
        return f"{digest.hexdigest()}+{self._blocks[number].length}", changed

    async def _put(self, blocks: BlockClient, number: int) -> str:
        if not self._blocks[number].is_packed:
            return await self._put_part(blocks, number)
        if (data := self._block_bytes.pop(number, None)) is not None:
            async with self._room.taken(len(data)):
                return await self._put_packed(blocks, number, data)
        # Kept blocks that wait for sending are in memory too.
        kept = sum(map(len, self._block_bytes.values()))
        async with self._room.taken(self._blocks[number].length, beside=kept):
            data = await asyncio.to_thread(self._gather, number)
            return await self._put_packed(blocks, number, data)

    async def _put_packed(self, blocks: BlockClient, number: int, data: bytearray) -> str:
        digest = self._digest(number)
        try:
            return await blocks.put(data, digest)
        except Malformed as error:
            # The store refuses bytes that do not match the hash: was a file changed between the
            # two reads?
            if await hash_block(data) != digest:
                raise _changed(str(Path(next(self._files(number))[0].source).parent)) from error
            raise

    async def _put_part(self, blocks: BlockClient, number: int) -> str:
        listed, start, length = next(self._files(number))
        digest, descriptor = self._digest(number), _open(listed)
        try:
            return await blocks.put_part(descriptor, start, length, digest)
        except (Invalid, Malformed) as error:
            if (
                stamp_of(os.fstat(descriptor)) != listed.stamp
                or await hash_part(descriptor, start, length) != digest
            ):
                raise _changed(listed.source) from error
            raise
        finally:
            os.close(descriptor)

    def _digest(self, number: int) -> str:
        return self._hashes[number].partition("+")[0]

    def _gather(self, number: int) -> bytearray:
        data = bytearray()
        for file, start, length in self._files(number):
            for piece in _read_part(file, start, length):
                data += piece
        return data


class _Room:
    """Limit of bytes in memory; requests beyond it wait."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, size: int, *, beside: int = 0) -> AsyncGenerator[None]:
        """Reserve so many bytes inside the context; `beside`: further bytes in memory. A single
        request of any size is granted.
        """
        async with self._changed:
            await self._changed.wait_for(
                lambda: not self._used or self._used + size + beside <= self._size
            )
            self._used += size
        try:
            yield
        finally:
            async with self._changed:
                self._used -= size
                self._changed.notify_all()


def _read_part(file: ListedFile, start: int, length: int) -> Iterator[bytes]:
    descriptor = _open(file)
    try:
        done = 0
        while done < length:
            piece = read_at(descriptor, min(_PIECE, length - done), start + done)
            if not piece:
                raise _changed(file.source)
            done += len(piece)
            yield piece
        if stamp_of(os.fstat(descriptor)) != file.stamp:
            raise _changed(file.source)
    except OSError as error:
        raise Invalid(f"{file.source}: cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _open(file: ListedFile) -> int:
    try:
        # A listed file may have become a pipe; without O_NONBLOCK, opening it would wait for a
        # writer.
        return os.open(file.source, os.O_RDONLY | NO_INHERIT | NO_WAIT | AS_BYTES)
    except OSError as error:
        raise Invalid(f"{file.source}: cannot be read: {error.strerror}") from error


def _changed(path: str) -> Invalid:
    return Invalid(
        f"{path}: changed while it was read; put it again when it does not change any more:"
        " stored blocks are kept"
    )


async def _each(numbers: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
    """Do the work for each number, _AT_ONCE at a time. The first error cancels the rest."""
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(worker(), name="upload")
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None

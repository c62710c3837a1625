"""Files on disk into the store: hashed first, so that only what is not stored is sent, and able to go on where it was.

The blocks are planned from names and sizes alone (`core.packing`). Each block is hashed once; what the journal knows of
files that have not changed (size, times and inode) is not read again, and what the store has acknowledged for this
token is not sent again. A file that changes while it is read is refused: what was stored would be no state it ever had.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from lading.client.blocks import BlockClient
from lading.client.collections import Progress
from lading.client.journal import Journal
from lading.client.listing import Found, Listing, list_sources, stamp_of
from lading.core import filetree, manifest, packing
from lading.core import locator as locators
from lading.core.errors import Invalid, Malformed
from lading.core.locator import MAX_BLOCK
from lading.core.packing import Block, Part

_AT_ONCE = 2
_PIECE = 1 << 20
# Packed blocks that are kept in memory between hashing and sending, so that small files are read once.
_KEPT = MAX_BLOCK
# A file that was written this short before it was read may be written again without a change of its times.
_YOUNG = 100_000_000
# A signature must last until the collection is made.
_MARGIN = 900


class Upload:
    """One upload of files and directories, each at its path; "" is the root. Symbolic links are followed.

    `look`, `hash`, then `send` if the content is not stored. Raises Invalid naming what cannot be read, is neither
    file nor directory, or changes meanwhile.
    """

    def __init__(
        self,
        sources: Mapping[str, Path],
        *,
        journal: Journal | None = None,
        clock: Callable[[], int] = time.time_ns,
        pack: int = MAX_BLOCK,
    ) -> None:
        self._sources = sources
        self._journal = journal or Journal()
        self._clock = clock
        self._pack = pack
        self._listing = Listing()
        self._blocks: list[Block] = []
        self._keys: list[str] = []
        self._hashes: list[str] = []
        self._kept: dict[int, bytearray] = {}

    @property
    def keys(self) -> Sequence[str]:
        """What the journal calls the blocks of this upload."""
        return self._keys

    async def look(self) -> None:
        """List the files, and plan their blocks."""
        self._listing = await asyncio.to_thread(list_sources, self._sources)
        for found in self._listing.files:
            filetree.check_path(found.path)
        self._blocks = packing.plan([(found.path, found.size) for found in self._listing.files], pack=self._pack)
        self._keys = [self._key(block) for block in self._blocks]
        self._hashes = [self._journal.blocks.get(key, "") for key in self._keys]

    async def hash(self, *, progress: Progress | None = None) -> str:
        """Hash what is not known; the portable data hash that the collection will have."""
        advance = self._advance(progress)

        async def work(number: int) -> None:
            if not self._hashes[number]:
                young = self._clock() - _YOUNG
                self._hashes[number] = await asyncio.to_thread(self._hash, number)
                if all(max(self._found(part).stamp[1:3]) < young for part in self._blocks[number]):
                    self._journal.note_block(self._keys[number], self._hashes[number])
            advance(number)

        await _each(range(len(self._blocks)), work)
        return manifest.portable_data_hash(self._manifest(self._hashes))

    async def send(
        self, blocks: BlockClient, *, stored: Mapping[str, str] | None = None, progress: Progress | None = None
    ) -> str:
        """Store what the store is not known to have; the manifest, signed.

        `stored`: locators, signed for this token, by hash and size. Raises as `BlockClient.put` too.
        """
        advance = self._advance(progress)
        have = {**self._journal.locators, **(stored or {})}
        until = self._clock() // 1_000_000_000 + _MARGIN
        have = {block: locator for block, locator in have.items() if locators.expiry_of(locator) > until}

        async def work(number: int) -> None:
            block = self._hashes[number]
            if block not in have:
                have[block] = await self._put(blocks, number)
                self._journal.note_locator(have[block])
            advance(number)

        await _each(range(len(self._blocks)), work)
        return self._manifest([have[block] for block in self._hashes])

    def _manifest(self, found: Sequence[str]) -> str:
        paths = [one.path for one in self._listing.files]
        return filetree.to_manifest(packing.lay_out(paths, self._blocks, found, empty=self._listing.empty))

    def _advance(self, progress: Progress | None) -> Callable[[int], None]:
        done, size = 0, self._listing.size

        def advance(number: int) -> None:
            nonlocal done
            done += sum(part.length for part in self._blocks[number])
            if progress:
                progress(done, size)

        return advance

    def _found(self, part: Part) -> Found:
        return self._listing.files[part.file]

    def _key(self, block: Block) -> str:
        digest = hashlib.sha256()
        for part in block:
            found = self._found(part)
            digest.update(f"{found.stamp} {part.start} {part.length} {len(str(found.source))} ".encode())
            digest.update(os.fsencode(found.source.absolute()))
        return digest.hexdigest()[:32]

    def _hash(self, number: int) -> str:
        block = self._blocks[number]
        size = sum(part.length for part in block)
        keep = len(block) > 1 and sum(map(len, self._kept.values())) + size <= _KEPT
        kept, digest = bytearray(), hashlib.md5(usedforsecurity=False)
        for piece in self._read(block):
            digest.update(piece)
            if keep:
                kept += piece
        if keep:
            self._kept[number] = kept
        return f"{digest.hexdigest()}+{size}"

    async def _put(self, blocks: BlockClient, number: int) -> str:
        block = self._blocks[number]
        if len(block) == 1:
            locator = await self._put_part(blocks, block[0])
        else:
            data = self._kept.pop(number, None)
            locator = await blocks.put(await asyncio.to_thread(self._gather, block) if data is None else data)
        if locators.parse(locator).bare != self._hashes[number]:
            raise _changed(self._found(block[0]).source if len(block) == 1 else self._directory(block))
        return locator

    async def _put_part(self, blocks: BlockClient, part: Part) -> str:
        found = self._found(part)
        descriptor = _open(found)
        try:
            return await blocks.put_part(descriptor, part.start, part.length)
        except (Invalid, Malformed) as error:
            if stamp_of(os.fstat(descriptor)) != found.stamp:
                raise _changed(found.source) from error
            raise
        finally:
            os.close(descriptor)

    def _gather(self, block: Block) -> bytearray:
        data = bytearray()
        for piece in self._read(block):
            data += piece
        return data

    def _read(self, block: Block) -> Iterator[bytes]:
        for part in block:
            yield from _read_part(self._found(part), part)

    def _directory(self, block: Block) -> Path:
        return self._found(block[0]).source.parent


def _read_part(found: Found, part: Part) -> Iterator[bytes]:
    descriptor = _open(found)
    try:
        done = 0
        while done < part.length:
            piece = os.pread(descriptor, min(_PIECE, part.length - done), part.start + done)
            if not piece:
                raise _changed(found.source)
            done += len(piece)
            yield piece
        if stamp_of(os.fstat(descriptor)) != found.stamp:
            raise _changed(found.source)
    except OSError as error:
        raise Invalid(f"{found.source}: cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _open(found: Found) -> int:
    try:
        # What was a file when it was listed may be a pipe by now, which would wait for a writer.
        return os.open(found.source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Invalid(f"{found.source}: cannot be read: {error.strerror}") from error


def _changed(path: Path) -> Invalid:
    return Invalid(f"{path}: changed while it was read; when it is at rest, put it again: what is stored is kept")


async def _each(numbers: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
    """Do the work for each number, a few at a time. The first error ends it."""
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

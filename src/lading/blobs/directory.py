"""A volume of blocks in a directory: files of their own (`single_files`), and, for small blocks,
packs (`packs`).

Small blocks are packed if the volume is so configured. Packed blocks are read, discarded and
verified in any case. A block may lie in a file and in a pack: then the later time of a put counts,
and both are discarded. The bin, and damaged blocks, are always files.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Self

from lading.blobs.block_files import FileDraft
from lading.blobs.pack_commits import PackCommits
from lading.blobs.packs import Packs
from lading.blobs.single_files import PATIENCE, RESERVE, SingleFiles
from lading.blobs.volume import (
    Buffer,
    Discarded,
    Loan,
    Parameters,
    Space,
    Stored,
    read_parameters,
)
from lading.core.data.pack_changes import ChangeResult, PackChange
from lading.core.data.pack_format import LIMIT, RecordKind
from lading.core.data.pack_index import PackEntry
from lading.core.errors import Conflict, Corrupt, Full, Invalid, LadingError, NotFound

_FOLDER: Final = re.compile(r"[0-9a-f]{3}")


class DirectoryVolume:
    """Blocks below a directory, which is created if missing.

    `reserve` bytes and `reserve_files` inodes of its disk stay free. With `pack_small_blocks` new
    blocks of less than 64 KiB are packed.
    """

    def __init__(
        self,
        directory: Path,
        *,
        reserve: int = RESERVE,
        reserve_files: int = 0,
        pack_small_blocks: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
        patience: float = PATIENCE,
    ) -> None:
        self._files = SingleFiles(
            directory,
            reserve=reserve,
            reserve_files=reserve_files,
            clock_ns=clock_ns,
            patience=patience,
        )
        self._run = self._files.run
        self._packs = Packs(directory, clock_ns=clock_ns)
        self._is_packing = pack_small_blocks
        if pack_small_blocks:
            self._packs.create()
        self._commits = PackCommits(self._packs, self._commit, self._run)

    @classmethod
    def from_parameters(cls, parameters: Parameters) -> Self:
        """The volume of a configuration: `Root` is the directory, `Reserve` the free bytes that it
        keeps, `PackSmallBlocks` whether new small blocks are packed.
        """
        values = read_parameters(
            "Directory", parameters, {"Root": "", "Reserve": RESERVE, "PackSmallBlocks": False}
        )
        root = Path(str(values["Root"]))
        if not root.is_absolute():
            raise Invalid("configuration: Volumes: Directory: Root must be an absolute path")
        try:
            return cls(
                root,
                reserve=int(values["Reserve"]),
                pack_small_blocks=bool(values["PackSmallBlocks"]),
            )
        except OSError as error:
            raise Invalid(
                f"configuration: Volumes: {root}: cannot be used: {error.strerror}"
            ) from error

    @property
    def device(self) -> str:
        """Identity of the directory, independent of its path."""
        return self._files.device

    async def put(self, hash: str, data: Buffer) -> None:
        """Store a block; see BlockVolume."""
        if len(data) < LIMIT and await self._is_packed(hash):
            # Copied: a caller that is cancelled may use its memory for something else.
            change = PackChange(RecordKind.PUT, bytes.fromhex(hash), bytes(data))
            if await self._commits.make(change) is ChangeResult.DONE:
                return
        await self._files.put(hash, data)

    async def _is_packed(self, hash: str) -> bool:
        """Whether a small block goes to the packs."""
        if self._is_packing or not self._packs.files:
            return self._is_packing
        # A packed block is touched there, also where new ones are not packed.
        return await self._run(self._packs.find, hash) is not None

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The block; see BlockVolume."""
        block = await self._run(self._read_packed, hash) if self._packs.files else None
        if block is None:
            try:
                return await self._files.get(hash, into)
            except NotFound:
                # Another process may have packed it.
                block = await self._run(self._read_new, hash)
                if block is None:
                    raise
        if into is None:
            return block
        if len(block) > len(into):
            raise NotFound(f"{hash}: has {len(block)} bytes, not {len(into)}")
        into[: len(block)] = block
        return into[: len(block)]

    async def lend(self, hash: str) -> Loan:
        """The open file of a block; see Lending."""
        return await self._run(self._lend, hash)

    async def head(self, hash: str) -> Stored:
        """Size and time of a block; see BlockVolume."""
        return await self._run(self._look_up, hash)

    async def index(self, prefix: str = "") -> AsyncGenerator[Stored]:
        """Blocks by prefix; see BlockVolume."""
        for name in await self._run(self._folders, prefix):
            for stored in await self._run(self._list_folder, name, prefix):
                yield stored

    async def space(self) -> Space:
        """Total and free space; see BlockVolume."""
        return await self._files.space()

    async def begin(self, size: int) -> FileDraft | None:
        """A draft; see Drafting."""
        return None if self._is_packing and size < LIMIT else await self._files.begin(size)

    async def touch(self, hash: str) -> None:
        """Set the time of the last put; see Bin."""
        if await self._run(self._packs.look_up, hash) is not None:
            change = PackChange(RecordKind.TOUCH, bytes.fromhex(hash))
            if await self._commits.make(change) is ChangeResult.DONE:
                return
        await self._files.touch(hash)

    async def discard(self, hash: str, mtime_ns: int) -> None:
        """Move a block to the bin; see Bin."""
        await self._take_away(hash, mtime_ns, self._files.keep_discarded, self._files.discard)

    async def restore(self, hash: str) -> None:
        """Restore a block; see Bin."""
        await self._files.restore(hash)

    async def discarded(self) -> AsyncGenerator[Discarded]:
        """All blocks in the bin; see Bin."""
        async for discarded in self._files.discarded():
            yield discarded

    async def delete(self, hash: str, discarded_ns: int) -> None:
        """Delete a block from the bin; see Bin."""
        await self._files.delete(hash, discarded_ns)

    async def quarantine(self, hash: str, mtime_ns: int) -> None:
        """Take a damaged block out of use; see Bin."""
        await self._take_away(hash, mtime_ns, self._files.keep_damaged, self._files.quarantine)

    async def compact(self) -> None:
        """Return the space of blocks that were taken away; see Compacting. Where small blocks are
        not packed any more, those in packs become files. Raises Corrupt for those that cannot.
        """
        await self._run(self._packs.refresh)
        if not self._packs.files:
            return
        damaged = 0 if self._is_packing else await self._unpack_all()
        await self._commits.compact()
        if damaged:
            raise Corrupt(
                f"{damaged} damaged blocks stay in packs; run 'lading admin scrub' and then"
                " 'lading admin gc' again"
            )

    async def _unpack_all(self) -> int:
        """Make packed blocks files; return the number of damaged ones, which stay."""
        damaged = 0
        for folder in await self._run(self._packs.list_folders):
            for block in await self._run(self._packs.list_folder, folder):
                damaged += not await self._unpack(block)
        return damaged

    async def _unpack(self, block: PackEntry) -> bool:
        hash = block.hash.hex()
        data = await self._run(self._packs.read, hash)
        # Another process has taken it away.
        if data is None:
            return True
        if not data[2]:
            return False
        await self._files.put(hash, data[1])
        # It stays if it was put again meanwhile, beside the file.
        change = PackChange(RecordKind.REMOVE, block.hash, mtime_ns=data[0].mtime_ns)
        await self._commits.make(change)
        return True

    async def close(self) -> None:
        """End the task and the threads of the volume."""
        await self._commits.close()
        await self._files.close()

    # In threads.

    def _commit(self, changes: Sequence[PackChange]) -> list[ChangeResult | LadingError]:
        """Make changes; the result of each. Small blocks with files of their own stay there."""
        refused = dict[int, ChangeResult | LadingError]()
        for index, change in enumerate(changes):
            if change.kind is RecordKind.PUT and (result := self._refusal(change)) is not None:
                refused[index] = result
        made = iter(
            self._packs.commit(
                [change for index, change in enumerate(changes) if index not in refused]
            )
        )
        return [refused[index] if index in refused else next(made) for index in range(len(changes))]

    def _refusal(self, change: PackChange) -> ChangeResult | LadingError | None:
        hash = change.hash.hex()
        if self._packs.find(hash) is None and self._files.find(hash) is not None:
            return ChangeResult.ELSEWHERE
        try:
            # A batch is far smaller than the reserve.
            self._files.check_room(len(change.data))
        except Full as error:
            return error
        return None

    def _read_packed(self, hash: str) -> bytes | None:
        return None if self._packs.find(hash) is None else self._read_new(hash)

    def _read_new(self, hash: str) -> bytes | None:
        """The bytes of a packed block, also one that another process has just packed. Raises
        Corrupt, unless there is a file that may be intact.
        """
        block = self._packs.read(hash)
        if block is None:
            return None
        if not block[2]:
            if self._files.find(hash) is None:
                raise self._files.corrupt(hash)
            return None
        return block[1]

    def _lend(self, hash: str) -> Loan:
        data = self._read_packed(hash)
        if data is None:
            try:
                return self._files.lend_file(hash)
            except NotFound:
                data = self._read_new(hash)
                if data is None:
                    raise
        return Loan(None, data)

    def _look_up(self, hash: str) -> Stored:
        block = self._packs.find(hash)
        if block is not None:
            return _stored(block)
        stored = self._files.find(hash)
        if stored is not None:
            return stored
        block = self._packs.look_up(hash)
        if block is not None:
            return _stored(block)
        raise self._files.absent(hash)

    def _folders(self, prefix: str) -> list[str]:
        self._packs.refresh()
        packed = (f"{number:03x}" for number in self._packs.list_folders())
        names = {
            *self._files.folders(prefix),
            *(folder for folder in packed if folder.startswith(prefix)),
        }
        return sorted(names)

    def _list_folder(self, name: str, prefix: str) -> list[Stored]:
        blocks = {block.hash: block for block in self._files.list_folder(name, prefix)}
        for block in self._packs.list_folder(int(name, 16)) if _FOLDER.fullmatch(name) else ():
            stored = _stored(block)
            if stored.hash.startswith(prefix):
                packed = blocks.get(stored.hash, stored)
                blocks[stored.hash] = max(stored, packed, key=lambda candidate: candidate.mtime_ns)
        return [blocks[hash] for hash in sorted(blocks)]

    async def _take_away(
        self,
        hash: str,
        mtime_ns: int,
        keep: Callable[[str, Buffer], Path],
        take_file: Callable[[str, int], Awaitable[None]],
    ) -> None:
        """Take a block out of use where its last put was at a time; `keep` writes its bytes."""
        packed, stored = await self._run(self._find_both, hash)
        times = [block.mtime_ns for block in (packed, stored) if block is not None]
        if packed is None:
            await take_file(hash, mtime_ns)
            return
        if max(times) != mtime_ns:
            raise _put_again(hash)
        await self._take_packed(packed, hash, keep)
        # A put in between has changed the time of the file: then the block is in use.
        if stored is not None:
            await take_file(hash, stored.mtime_ns)

    async def _take_packed(
        self, packed: PackEntry, hash: str, keep: Callable[[str, Buffer], Path]
    ) -> None:
        block = await self._run(self._packs.read, hash)
        if block is None:
            raise NotFound(f"{hash}: no such block")
        # The bytes are on the disk before the block is taken away.
        path = await self._run(keep, hash, block[1])
        change = PackChange(RecordKind.REMOVE, packed.hash, mtime_ns=packed.mtime_ns)
        result = await self._commits.make(change)
        if result is not ChangeResult.DONE:
            await self._run(path.unlink, True)
            raise _put_again(hash)

    def _find_both(self, hash: str) -> tuple[PackEntry | None, Stored | None]:
        self._packs.refresh()
        return self._packs.find(hash), self._files.find(hash)


def _stored(block: PackEntry) -> Stored:
    return Stored(block.hash.hex(), block.size, block.mtime_ns)


def _put_again(hash: str) -> Conflict:
    return Conflict(f"{hash}: was put again; list it again")

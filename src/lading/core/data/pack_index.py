"""The index of the blocks in pack files: where each one is, and when it was last put.

A million blocks take some 45 MB: the entries of the hashes with the same first three digits lie
sorted in one array of bytes. A dict of objects would take five times that.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lading.core.data.pack_format import HEADER_SIZE, PackRecord, RecordKind

# Hash, pack, position of the record, size of the block, time of its last put.
_ENTRY: Final = struct.Struct(">16sIIIq")
_KEY: Final = 16
# Three digits of a hash.
_FOLDERS: Final = 4096


@dataclass(frozen=True, slots=True)
class PackEntry:
    """A block in a pack: hash (16 bytes), number of the pack, position of its record, size in
    bytes, time of its last put in Unix nanoseconds.
    """

    hash: bytes
    pack: int
    position: int
    size: int
    mtime_ns: int

    @property
    def length(self) -> int:
        """Bytes of its record."""
        return HEADER_SIZE + self.size


class PackIndex:
    """The blocks of all packs."""

    def __init__(self) -> None:
        self._folders: list[bytearray | None] = [None] * _FOLDERS
        self._count = 0
        self._live = Counter[int]()

    def __len__(self) -> int:
        return self._count

    def live(self, pack: int) -> int:
        """Bytes of the records of a pack that store present blocks."""
        return self._live[pack]

    def find(self, hash: bytes) -> PackEntry | None:
        """The block with a hash, or None."""
        return self._entry(hash)[2]

    def set(self, block: PackEntry) -> None:
        """Add a block, or replace the one with the same hash."""
        entry = _ENTRY.pack(block.hash, block.pack, block.position, block.size, block.mtime_ns)
        folder, at, replaced = self._entry(block.hash)
        if folder is None:
            self._folders[folder_of(block.hash)] = bytearray(entry)
        elif replaced is None:
            folder[at:at] = entry
        else:
            folder[at : at + _ENTRY.size] = entry
            self._live[replaced.pack] -= replaced.length
        self._count += replaced is None
        self._live[block.pack] += block.length

    def remove(self, hash: bytes) -> None:
        """Remove the block with a hash, if there is one."""
        folder, at, known = self._entry(hash)
        if folder is not None and known is not None:
            del folder[at : at + _ENTRY.size]
            self._count -= 1
            self._live[known.pack] -= known.length

    def apply(self, record: PackRecord, pack: int) -> None:
        """Note what a record of a pack says; records are applied in the order of their writing."""
        if record.kind is RecordKind.PUT:
            self.set(PackEntry(record.hash, pack, record.position, record.size, record.time_ns))
        elif record.kind is RecordKind.REMOVE:
            self.remove(record.hash)
        elif (block := self.find(record.hash)) is not None:
            self.set(replace(block, mtime_ns=record.time_ns))

    def folder(self, number: int) -> list[PackEntry]:
        """The blocks whose hashes begin with the three digits of a number, sorted by hash."""
        folder = self._folders[number]
        return (
            [] if folder is None else [PackEntry(*values) for values in _ENTRY.iter_unpack(folder)]
        )

    def folders(self) -> list[int]:
        """The numbers of the folders with blocks."""
        return [number for number, folder in enumerate(self._folders) if folder]

    def keep_packs(self, packs: Collection[int]) -> None:
        """Remove the blocks that are in none of these packs."""
        for number in self.folders():
            for block in self.folder(number):
                if block.pack not in packs:
                    self.remove(block.hash)

    def _entry(self, hash: bytes) -> tuple[bytearray | None, int, PackEntry | None]:
        """The folder of a hash, the position of its entry there, and the entry if there is one."""
        folder = self._folders[folder_of(hash)]
        if folder is None:
            return None, 0, None
        entries = range(0, len(folder), _ENTRY.size)
        at = _ENTRY.size * bisect_left(
            entries, hash, key=lambda start: bytes(folder[start : start + _KEY])
        )
        if folder[at : at + _KEY] != hash:
            return folder, at, None
        return folder, at, PackEntry(*_ENTRY.unpack_from(folder, at))


def folder_of(hash: bytes) -> int:
    """The number of the folder of a hash: its first three digits."""
    return hash[0] << 4 | hash[1] >> 4


@dataclass(frozen=True, slots=True)
class PackUse:
    """The use of a pack: its size, the bytes of the records of its present blocks, and of the
    records that store none.
    """

    size: int
    live: int = 0
    notes: int = 0


def choose_pack(uses: Mapping[int, PackUse], skipped: Collection[int]) -> int | None:
    """The oldest pack that is worth compaction: at least half of its bytes are of no use.

    Records that store no block may have to be written again, except for those of the oldest pack.
    So the oldest one is chosen also when such records are more than half of all bytes. The packs
    of `skipped` are never chosen.
    """
    oldest = min(uses, default=0)
    notes = sum(use.notes for use in uses.values())
    if oldest not in skipped and 2 * notes > sum(use.size for use in uses.values()):
        return oldest
    for pack in sorted(uses.keys() - set(skipped)):
        use = uses[pack]
        needed = use.live + (0 if pack == oldest else use.notes)
        if use.size >= 2 * needed:
            return pack
    return None


def is_needed(record: PackRecord, pack: int, block: PackEntry | None, *, is_oldest: bool) -> bool:
    """Whether compaction of a pack must write a record of it again; `block` is the present one with
    its hash.

    A removal is needed while an older pack may have the block.
    """
    if record.kind is RecordKind.REMOVE:
        return block is None and not is_oldest
    if block is None:
        return False
    if record.kind is RecordKind.PUT:
        return (block.pack, block.position) == (pack, record.position)
    return block.pack < pack and block.mtime_ns == record.time_ns

"""Changes of packed blocks that are written to a pack together, with one sync.

A put of a block that is stored and intact only changes the time of its last put. That time always
grows, also when a clock was set back: so whoever compares it sees every put.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from lading.core.data.pack_format import PackRecord, RecordKind, encode_record
from lading.core.data.pack_index import PackEntry


class ChangeResult(StrEnum):
    """Result of a change."""

    DONE = "done"
    ABSENT = "absent"
    """No such block is packed."""
    CONFLICT = "conflict"
    """The last put of the block was at another time."""
    ELSEWHERE = "elsewhere"
    """The block has a file of its own."""


@dataclass(frozen=True, slots=True)
class PackChange:
    """A change of the block with a hash (16 bytes): a put of bytes, a touch, or a removal, if its
    last put was at `mtime_ns`.
    """

    kind: RecordKind
    hash: bytes
    data: bytes = b""
    mtime_ns: int = 0


class PackBatch:
    """The records of changes, which are written at `position` of a pack.

    `find` looks up a block in the index; `is_intact` tells whether a stored block has these bytes.
    """

    def __init__(
        self,
        *,
        pack: int,
        position: int,
        key: bytes,
        now_ns: int,
        find: Callable[[bytes], PackEntry | None],
        is_intact: Callable[[PackEntry, bytes], bool],
    ) -> None:
        self.pack = pack
        """The pack that they are written to."""
        self.start = position
        """Position of the first one."""
        self._key = key
        self._now_ns = now_ns
        self._find_stored, self._is_intact = find, is_intact
        self._changed = dict[bytes, PackEntry | None]()
        self.data = bytearray()
        """The bytes of the records."""
        self.records = list[PackRecord]()

    def add(self, change: PackChange) -> ChangeResult:
        """Add the record of a change, if it needs one."""
        block = self.find(change.hash)
        now = self._now_ns if block is None else max(self._now_ns, block.mtime_ns + 1)
        if change.kind is RecordKind.PUT:
            if block is not None and self._has(block, change.data):
                self.write(RecordKind.TOUCH, change.hash, now)
            else:
                self.write(RecordKind.PUT, change.hash, now, change.data)
            return ChangeResult.DONE
        if block is None:
            return ChangeResult.ABSENT
        if change.kind is RecordKind.REMOVE and block.mtime_ns != change.mtime_ns:
            return ChangeResult.CONFLICT
        self.write(change.kind, change.hash, now)
        return ChangeResult.DONE

    def write(self, kind: RecordKind, hash: bytes, time_ns: int, data: bytes = b"") -> None:
        """Add a record."""
        position = self.start + len(self.data)
        self.data += encode_record(kind, hash, time_ns, self._key, data)
        self.records.append(PackRecord(kind, hash, position, len(data), time_ns))
        block = self.find(hash)
        if kind is RecordKind.PUT:
            self._changed[hash] = PackEntry(hash, self.pack, position, len(data), time_ns)
        elif kind is RecordKind.REMOVE or block is None:
            self._changed[hash] = None
        else:
            self._changed[hash] = PackEntry(hash, block.pack, block.position, block.size, time_ns)

    def find(self, hash: bytes) -> PackEntry | None:
        """The block with a hash after the changes so far, or None."""
        return self._changed[hash] if hash in self._changed else self._find_stored(hash)

    def _has(self, block: PackEntry, data: bytes) -> bool:
        # One of this batch is not written yet; its hash was checked.
        is_own = block.pack == self.pack and block.position >= self.start
        return is_own or self._is_intact(block, data)

"""The format of pack files, in which a directory volume keeps its small blocks.

    pack    signature (8 bytes), key (8), checksum of both (8), then records
    record  key of the pack (8), kind (1), hash (16), size (4), time (8), checksum of all that (8),
            then as many bytes of a block as `size` says

All numbers are little-endian. A record of kind PUT stores a block, TOUCH changes the time of its
last put, REMOVE takes it away; the last record of a hash counts. The times are Unix nanoseconds.

The key is random and differs in each pack. It marks the start of a record where the bytes before
are damaged: a client cannot forge a record inside of a block, as it does not know the key.

A record with an intact header whose bytes do not match the hash is a damaged block if intact
records follow; at the end of a pack it was cut off by a crash, and nobody was told that it is
stored.

The sidecar of a pack lists its records without their bytes, so that a start does not read packs:

    sidecar signature (8), key of the pack (8), size of the pack (8), number of records (4),
            checksum of that and of the list (8), then kind (1), hash (16), position (4), size (4),
            time (8) of each
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

LIMIT: Final = 64 << 10
"""Bytes: only smaller blocks are packed."""
KEY_SIZE: Final = 8
_SIGNATURE: Final = b"LDPACK1\n"
_SIDECAR_SIGNATURE: Final = b"LDPKIX1\n"
_CHECKSUM: Final = 8
_RECORD: Final = struct.Struct("<8sB16sIq")
_SIDECAR: Final = struct.Struct("<8s8sQI")
_LISTED: Final = struct.Struct("<B16sIIq")
PACK_HEADER_SIZE: Final = len(_SIGNATURE) + KEY_SIZE + _CHECKSUM
"""Bytes before the first record."""
HEADER_SIZE: Final = _RECORD.size + _CHECKSUM
"""Bytes of a record before those of the block."""


class RecordKind(IntEnum):
    """The kind of a record."""

    PUT = 1
    TOUCH = 2
    REMOVE = 3


@dataclass(frozen=True, slots=True)
class PackRecord:
    """A record: kind, hash (16 bytes), position of the record in the pack, size of the block in
    bytes, time in Unix nanoseconds.
    """

    kind: RecordKind
    hash: bytes
    position: int
    size: int
    time_ns: int

    @property
    def length(self) -> int:
        """Bytes of the record, with those of the block."""
        return HEADER_SIZE + self.size


def encode_pack_header(key: bytes) -> bytes:
    """The first bytes of a pack."""
    return _SIGNATURE + key + _checksum(_SIGNATURE + key)


def find_key(start: bytes) -> bytes | None:
    """The key of a pack that begins with `start`, or None. Where the header is damaged, the key
    of the first record is taken.
    """
    header, record = start[:PACK_HEADER_SIZE], start[PACK_HEADER_SIZE:]
    key = header[len(_SIGNATURE) :][:KEY_SIZE]
    if header == encode_pack_header(key):
        return key
    key = record[:KEY_SIZE]
    return key if _read_header(record, key, 0) else None


def encode_record(
    kind: RecordKind, hash: bytes, time_ns: int, key: bytes, data: bytes = b""
) -> bytes:
    """The bytes of a record."""
    fields = _RECORD.pack(key, kind, hash, len(data), time_ns)
    return fields + _checksum(fields) + data


class PackScanner:
    """Finds the records of a pack in its bytes, which are fed in any pieces; `position` is that of
    the first fed byte.

    The memory is bounded by the largest record and the size of a piece, whatever the bytes are.
    """

    def __init__(self, key: bytes, position: int = PACK_HEADER_SIZE) -> None:
        self._key = key
        self._buffer = bytearray()
        self._position = position
        # Damaged blocks, if an intact record follows.
        self._doubtful: list[PackRecord] = []
        self.end = position
        """Position after the last intact record."""

    def feed(self, piece: bytes | bytearray | memoryview) -> list[PackRecord]:
        """The records that are complete with these bytes."""
        self._buffer += piece
        records = list[PackRecord]()
        start = 0
        while len(self._buffer) - start >= HEADER_SIZE:
            record = _read_header(self._buffer, self._key, self._position, start)
            if record is None:
                start = self._next_key(start + 1)
            elif len(self._buffer) - start < record.length:
                break
            else:
                self._take(record, start, records)
                start += record.length
        del self._buffer[:start]
        self._position += start
        return records

    def _next_key(self, start: int) -> int:
        index = self._buffer.find(self._key, start)
        # The key may begin in the last bytes.
        return index if index >= 0 else max(start, len(self._buffer) - KEY_SIZE + 1)

    def _take(self, record: PackRecord, start: int, records: list[PackRecord]) -> None:
        if record.kind is RecordKind.PUT:
            with memoryview(self._buffer) as view:
                data = view[start + HEADER_SIZE : start + record.length]
                is_intact = hashlib.md5(data, usedforsecurity=False).digest() == record.hash
                data.release()
            if not is_intact:
                self._doubtful.append(record)
                return
        records += [*self._doubtful, record]
        self._doubtful = []
        self.end = record.position + record.length


def encode_sidecar(records: Sequence[PackRecord], key: bytes, pack_size: int) -> bytes:
    """The sidecar of a pack with these records."""
    listed = b"".join(
        _LISTED.pack(record.kind, record.hash, record.position, record.size, record.time_ns)
        for record in records
    )
    head = _SIDECAR.pack(_SIDECAR_SIGNATURE, key, pack_size, len(records))
    return head + _checksum(head + listed) + listed


def decode_sidecar(data: bytes, pack_size: int) -> list[PackRecord] | None:
    """The records of a pack of this size, or None where the sidecar is damaged or is that of
    another pack.
    """
    head, listed = data[: _SIDECAR.size], data[_SIDECAR.size + _CHECKSUM :]
    if len(head) < _SIDECAR.size or data[_SIDECAR.size :][:_CHECKSUM] != _checksum(head + listed):
        return None
    signature, _, size, count = _SIDECAR.unpack(head)
    if (signature, size, count * _LISTED.size) != (_SIDECAR_SIGNATURE, pack_size, len(listed)):
        return None
    entries = list(_LISTED.iter_unpack(listed))
    if any(entry[0] not in _KINDS or entry[3] >= LIMIT for entry in entries):
        return None
    return [PackRecord(RecordKind(kind), *values) for kind, *values in entries]


def has_gap(records: Sequence[PackRecord]) -> bool:
    """Whether bytes between the records of a pack belong to none of them: their record was
    damaged.
    """
    end = PACK_HEADER_SIZE
    for record in records:
        if record.position != end:
            return True
        end += record.length
    return False


def _read_header(
    data: bytes | bytearray, key: bytes, position: int, start: int = 0
) -> PackRecord | None:
    """The record at `start` of `data`, which is at `position + start` of the pack, or None where
    there is none.
    """
    fields = bytes(data[start : start + _RECORD.size])
    checksum = data[start + _RECORD.size : start + HEADER_SIZE]
    if len(checksum) < _CHECKSUM or fields[:KEY_SIZE] != key or _checksum(fields) != checksum:
        return None
    _, kind, hash, size, time_ns = _RECORD.unpack(fields)
    if kind not in _KINDS or size >= LIMIT or (size and kind != RecordKind.PUT):
        return None
    return PackRecord(RecordKind(kind), hash, position + start, size, time_ns)


_KINDS: Final = frozenset(RecordKind)


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM).digest()

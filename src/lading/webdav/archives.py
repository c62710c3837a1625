"""Archives of directories, zip and tar, streamed with bounded memory.

A zip is stored, not compressed, as most data is already; large sizes are written as zip64, and the
checksum of a file after its data, since it is not known before. A tar is in the pax format. Both
carry directories, also empty ones, and the time of the collection's last change, so that the same
content gives the same bytes. Source: APPNOTE 6.3.
"""

from __future__ import annotations

import struct
import tarfile
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from lading.core.data import filetree
from lading.core.data.filetree import File, Node, Tree

Read = Callable[[File], AsyncGenerator[bytes]]
"""Reads a whole file in pieces."""


class Format(StrEnum):
    """The kinds of archives."""

    ZIP = "zip"
    TAR = "tar"


MEDIA: Final = {Format.ZIP: "application/zip", Format.TAR: "application/x-tar"}
_BLOCK: Final = 512
_RECORD: Final = 20 * _BLOCK
_LARGE: Final = 0xFFFFFFFF
_MANY: Final = 0xFFFF
_UTF8_AND_LATER: Final = 0x0808
_FILE_MODE: Final = 0o100644 << 16
_FOLDER_MODE: Final = (0o040755 << 16) | 0x10
_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)


def stream(
    format: Format, tree: Tree, *, read: Read, modified: datetime | None
) -> AsyncGenerator[bytes]:
    """The archive of a tree, in pieces. Raises the errors of `read`."""
    return _zip(tree, read, modified) if format is Format.ZIP else _tar(tree, read, modified)


async def _tar(tree: Tree, read: Read, modified: datetime | None) -> AsyncGenerator[bytes]:
    written = 0
    for path, node in filetree.walk(tree):
        header = _tar_header(path, node, modified)
        yield header
        written += len(header)
        if isinstance(node, File):
            async for piece in _exactly(read(node)):
                yield piece
            padding = -node.size % _BLOCK
            yield bytes(padding)
            written += node.size + padding
    end = 2 * _BLOCK
    yield bytes(end + -(written + end) % _RECORD)


def _tar_header(path: str, node: Node, modified: datetime | None) -> bytes:
    entry = tarfile.TarInfo(path)
    entry.mtime = int(modified.timestamp()) if modified else 0
    if isinstance(node, File):
        entry.size, entry.mode = node.size, 0o644
    else:
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    return entry.tobuf(tarfile.PAX_FORMAT)


@dataclass(frozen=True, slots=True)
class _Member:
    """Entry of a member in the central directory of a zip."""

    name: bytes
    mode: int
    checksum: int
    size: int
    at: int


async def _zip(tree: Tree, read: Read, modified: datetime | None) -> AsyncGenerator[bytes]:
    # The central directory is collected as bytes: objects for 100,000 members would take ten times
    # the memory.
    directory, count, at = bytearray(), 0, 0
    stamp = _dos_time(modified)
    for path, node in filetree.walk(tree):
        name, size = _zip_name(path, node), node.size if isinstance(node, File) else 0
        start = _local_header(name, size, stamp, later=isinstance(node, File))
        yield start
        checksum, begin = 0, at
        at += len(start)
        if isinstance(node, File):
            async for piece in _exactly(read(node)):
                checksum = zlib.crc32(piece, checksum)
                yield piece
            after = _descriptor(checksum, size)
            yield after
            at += size + len(after)
        mode = _FILE_MODE if isinstance(node, File) else _FOLDER_MODE
        directory += _entry(_Member(name, mode, checksum, size, begin), stamp)
        count += 1
    for begin in range(0, len(directory), 1 << 18):
        yield bytes(directory[begin : begin + (1 << 18)])
    yield b"".join(_zip_end(count, len(directory), at))


def _zip_name(path: str, node: Node) -> bytes:
    return f"{path}/".encode() if isinstance(node, Tree) else path.encode()


def _local_header(name: bytes, size: int, stamp: int, *, later: bool) -> bytes:
    """`later`: size and checksum follow the data."""
    large = size >= _LARGE
    extra = struct.pack("<HHQQ", 1, 16, 0, 0) if large else b""
    shown = _LARGE if large else 0
    flags = _UTF8_AND_LATER if later else _UTF8_AND_LATER & ~0x8
    version = 45 if large else 20
    fields = (b"PK\3\4", version, flags, 0, stamp, 0, shown, shown, len(name), len(extra))
    return struct.pack("<4sHHHIIIIHH", *fields) + name + extra


def _descriptor(checksum: int, size: int) -> bytes:
    return struct.pack("<4sIQQ" if size >= _LARGE else "<4sIII", b"PK\7\10", checksum, size, size)


def _entry(member: _Member, stamp: int) -> bytes:
    values = [value for value in (member.size, member.size, member.at) if value >= _LARGE]
    extra = struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values) if values else b""
    version = 45 if values else 20
    flags = _UTF8_AND_LATER if member.mode == _FILE_MODE else _UTF8_AND_LATER & ~0x8
    size, at = min(member.size, _LARGE), min(member.at, _LARGE)
    fixed = struct.pack(
        "<4sBBHHHIIIIHHHHHII",
        *(b"PK\1\2", version, 3, version, flags, 0, stamp, member.checksum, size, size),
        *(len(member.name), len(extra), 0, 0, 0, member.mode, at),
    )
    return fixed + member.name + extra


def _zip_end(count: int, size: int, at: int) -> Iterator[bytes]:
    if count >= _MANY or size >= _LARGE or at >= _LARGE:
        yield struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, at)
        yield struct.pack("<4sIQI", b"PK\6\7", 0, at + size, 1)
    shown = min(count, _MANY)
    yield struct.pack(
        "<4sHHHHIIH", b"PK\5\6", 0, 0, shown, shown, min(size, _LARGE), min(at, _LARGE), 0
    )


def _dos_time(modified: datetime | None) -> int:
    year, month, day, hour, minute, second = modified.timetuple()[:6] if modified else _EARLIEST
    if not _EARLIEST[0] <= year < _EARLIEST[0] + 128:
        year, month, day, hour, minute, second = _EARLIEST
    date = (year - _EARLIEST[0]) << 9 | month << 5 | day
    return date << 16 | hour << 11 | minute << 5 | second // 2


async def _exactly(pieces: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece

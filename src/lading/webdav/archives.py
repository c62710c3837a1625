"""Directories as archives: tar and zip, sent as they are made.

Archives are streamed: no file is in memory as a whole. A zip is stored, not compressed, as most
data is compressed already; large sizes are written as zip64, and the checksum of a file after its
data, since it is not known before. A tar is in the pax format. Both have directories, also empty
ones, and the time of the collection's last change, so that the same content gives the same bytes.
"""

from __future__ import annotations

import asyncio
import tarfile
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from datetime import datetime
from enum import StrEnum
from typing import IO, Final, cast

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Node

Read = Callable[[File], AsyncGenerator[bytes]]
"""Reads a whole file in pieces."""

# A tar consists of blocks of 512 bytes, and of records of 20 blocks.
_BLOCK: Final = 512
_RECORD: Final = 20 * _BLOCK
# Bytes that small writes of `zipfile` are gathered to: heads and directories are many and tiny.
_CHUNK: Final = 1 << 18
# A write of more bytes is passed on without a copy.
_SMALL: Final = 1 << 12
_Time = tuple[int, int, int, int, int, int]
# The upper half of the external attributes of a zip member is the Unix mode; 0x10 marks a directory
# for MS-DOS.
_FILE_MODE: Final = 0o100644 << 16
_FOLDER_MODE: Final = (0o040755 << 16) | 0x10
# The time of a zip member has 7 bits for years from 1980.
_EARLIEST: Final[_Time] = (1980, 1, 1, 0, 0, 0)


class Format(StrEnum):
    """The kinds of archives."""

    ZIP = "zip"
    TAR = "tar"


ARCHIVE_MEDIA: Final = {Format.ZIP: "application/zip", Format.TAR: "application/x-tar"}


def stream_archive(
    format: Format, tree: FileTree, *, read: Read, modified: datetime | None
) -> AsyncGenerator[bytes]:
    """The archive of a tree, in pieces. Raises the errors of `read`."""
    return _zip(tree, read, modified) if format is Format.ZIP else _tar(tree, read, modified)


async def _tar(tree: FileTree, read: Read, modified: datetime | None) -> AsyncGenerator[bytes]:
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
    # The end of a tar is two empty blocks, filled up to a whole record.
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


class _Sink:
    """Output file for `zipfile` that buffers the written bytes until `take` is called."""

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []

    def write(self, data: bytes) -> int:
        """Keep one piece, a small one together with those before it."""
        last = self._pieces[-1] if self._pieces else None
        if len(data) > _SMALL:
            self._pieces.append(data)
        elif isinstance(last, bytearray) and len(last) < _CHUNK:
            last += data
        else:
            self._pieces.append(bytearray(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: there is no other buffer."""

    def take(self) -> Iterator[bytes]:
        """The bytes written since the last call, in pieces."""
        pieces, self._pieces = self._pieces, []
        return (bytes(piece) if isinstance(piece, bytearray) else piece for piece in pieces)


async def _zip(tree: FileTree, read: Read, modified: datetime | None) -> AsyncGenerator[bytes]:
    # A file without `tell` is one that cannot be rewound: `zipfile` then writes the checksum of a
    # member after its data. It keeps 0.4 KB for each member, about as much as the tree has itself.
    sink = _Sink()
    archive = zipfile.ZipFile(cast(IO[bytes], sink), "w")
    stamp = _zip_time(modified)
    try:
        for path, node in filetree.walk(tree):
            if isinstance(node, FileTree):
                archive.mkdir(_member(f"{path}/", _FOLDER_MODE, stamp))
                continue
            member = _member(path, _FILE_MODE, stamp)
            # Tells `open` whether the member needs 64-bit sizes.
            member.file_size = node.size
            with archive.open(member, "w") as target:
                async for piece in _exactly(read(node)):
                    target.write(piece)
                    for written in sink.take():
                        yield written
            for written in sink.take():
                yield written
        # The central directory of 100,000 members takes half a second: not in the event loop.
        await asyncio.to_thread(archive.close)
    finally:
        # No central directory is made for an archive that is not read to its end.
        archive.fp = None
    for written in sink.take():
        yield written


def _member(name: str, mode: int, stamp: _Time) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, stamp)
    member.external_attr = mode
    # `mkdir` writes these values unchanged; the values of a file come later.
    member.CRC = member.file_size = member.compress_size = 0
    return member


def _zip_time(modified: datetime | None) -> _Time:
    """The time as a zip has it: local time from 1980 to 2107."""
    if modified is None or not _EARLIEST[0] <= modified.year < _EARLIEST[0] + 128:
        return _EARLIEST
    return (
        modified.year,
        modified.month,
        modified.day,
        modified.hour,
        modified.minute,
        modified.second,
    )


async def _exactly(pieces: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece

"""The list of the files of an upload, whose memory does not depend on their number.

Files are added and read in order, some of one directory at a time. A long list is written to a
temporary file.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from typing import IO, NamedTuple, Self

import msgspec

from lading.core.data.packing import PackedDirectory
from lading.core.errors import Full
from lading.core.remarks import Remarks
from lading.process.portable import read_at

# Bytes of the length before each record.
_HEAD = 4
# Bytes of records that are kept in memory; more are written to a file.
_SHORT = 1 << 16
Stamp = tuple[int, int, int, int, int]
"""Size, modification time, change time, inode and device of a file: equal values mean equal
content.
"""
_encode = msgspec.msgpack.Encoder().encode


class ListedFile(NamedTuple):
    """A regular file: its path on disk, and its stamp when it was listed."""

    source: str
    stamp: Stamp

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.stamp[0]


class ListedPart(msgspec.Struct, array_like=True):
    """Some files of one directory; `source` is the directory on disk, or `sources` has the path of
    each file.
    """

    path: str
    source: bytes
    sources: list[bytes]
    names: list[str]
    stamps: list[Stamp]
    first: int
    begin: int
    end: int

    def found(self, index: int) -> ListedFile:
        """The file at an index."""
        if self.sources:
            return ListedFile(os.fsdecode(self.sources[index]), self.stamps[index])
        return ListedFile(f"{os.fsdecode(self.source)}/{self.names[index]}", self.stamps[index])


_decode = msgspec.msgpack.Decoder(ListedPart).decode


class Listing:
    """The listed files, numbered in order: `count` files with `size` bytes together. The caller
    closes it.
    """

    def __init__(self) -> None:
        self.count = self.size = 0
        self.omitted = Remarks()
        """The entries that were left out, by `LinkPolicy.SKIP`."""
        self.renamed = Remarks()
        """The entries whose names are not UTF-8 and so are spelled (`core.data.raw_names`)."""
        # The records, until they are too many for memory.
        self._few = bytearray()
        self._file: IO[bytes] | None = None
        # Number of the first file of each directory all of whose files are empty, ascending.
        self._hollow = array("q")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the listing. Idempotent."""
        if self._file is not None:
            self._file.close()

    def folders(self) -> Iterator[PackedDirectory]:
        """All files, and directories without files, in the form that `core.data.packing` needs."""
        return (folder for _, folder in self.placed())

    def placed(self) -> Iterator[tuple[int, PackedDirectory]]:
        """Variant of `folders` with the offset of each folder in the listing, for `found`."""
        hollow = 0
        for offset, record in self._parts(0):
            while hollow < len(self._hollow) and self._hollow[hollow] < record.begin:
                hollow += 1
            is_hollow = hollow < len(self._hollow) and self._hollow[hollow] == record.begin
            yield (
                offset,
                PackedDirectory(
                    path=record.path,
                    names=record.names,
                    sizes=[stamp[0] for stamp in record.stamps],
                    first=record.first,
                    begin=record.begin,
                    end=record.end,
                    has_data=not is_hollow,
                ),
            )

    def found(self, offset: int, first: int, end: int) -> Iterator[ListedFile]:
        """The files with the numbers from `first` to `end` - 1; the first of them is in the record
        at `offset`.
        """
        for _, record in self._parts(offset):
            for index in range(
                max(0, first - record.first), min(len(record.names), end - record.first)
            ):
                yield record.found(index)
            if record.first + len(record.names) >= end:
                return

    def _parts(self, offset: int) -> Iterator[tuple[int, ListedPart]]:
        while head := self._read(offset, _HEAD):
            size = int.from_bytes(head)
            yield offset, _decode(self._read(offset + _HEAD, size))
            offset += _HEAD + size

    def _read(self, offset: int, size: int) -> bytes:
        if self._file is None:
            return bytes(self._few[offset : offset + size])
        return read_at(self._file.fileno(), size, offset)

    def add(self, record: ListedPart) -> None:
        """Append a record. Raises Full."""
        body = _encode(record)
        encoded = len(body).to_bytes(_HEAD) + body
        try:
            if self._file is not None:
                self._file.write(encoded)
            else:
                self._few += encoded
                if len(self._few) > _SHORT:
                    # `close` closes it.
                    self._file = tempfile.TemporaryFile(prefix="lading-put-")  # noqa: SIM115
                    self._file.write(self._few)
                    self._few.clear()
        except OSError as error:
            raise _no_room(error) from error
        self.count += len(record.names)
        self.size += sum(stamp[0] for stamp in record.stamps)

    def finish_directory(self, begin: int, before: int) -> None:
        """Note that all files of a directory were added, from number `begin` on, when the size was
        `before`.
        """
        if self.size == before and self.count > begin:
            self._hollow.append(begin)

    def flush(self) -> None:
        """Write the buffered records to the file. Raises Full."""
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            raise _no_room(error) from error


def stamp_of(state: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev


def _no_room(error: OSError) -> Full:
    where = tempfile.gettempdir()
    return Full(
        f"{where}: the list of the files cannot be written: {error.strerror}; "
        "set TMPDIR to another directory"
    )

"""Directories of collections as an archive, a page, or JSON.

Archives of directories, zip and tar, streamed: no file is in memory as a whole.

A zip is stored, not compressed, as most data is already; large sizes are written as zip64, and the
checksum of a file after its data, since it is not known before. A tar is in the pax format. Both
carry directories, also empty ones, and the time of the collection's last change, so that the same
content gives the same bytes.

Directory listings: HTML without scripts, and JSON.

All names and addresses are escaped, and the page may load nothing. Large listings are streamed.
"""

from __future__ import annotations

import asyncio
import tarfile
import zipfile
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from html import escape
from typing import IO, Final, cast

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Node
from lading.core.records.schema import JSON
from lading.webdav.contents import CachedCollection
from lading.webdav.file_request import FileAddress
from lading.webdav.http import SAFE_HEADERS as SAFE
from lading.webdav.http import http_date

Read = Callable[[File], AsyncGenerator[bytes]]
"""Reads a whole file in pieces."""


class Format(StrEnum):
    """The kinds of archives."""

    ZIP = "zip"
    TAR = "tar"


ARCHIVE_MEDIA: Final = {Format.ZIP: "application/zip", Format.TAR: "application/x-tar"}
# A tar consists of blocks of 512 bytes, and of records of 20 blocks.
_BLOCK: Final = 512
_RECORD: Final = 20 * _BLOCK
_CHUNK: Final = 1 << 18
_SMALL: Final = 1 << 12
_Time = tuple[int, int, int, int, int, int]
_FILE_MODE: Final = 0o100644 << 16
_FOLDER_MODE: Final = (0o040755 << 16) | 0x10
_EARLIEST: Final[_Time] = (1980, 1, 1, 0, 0, 0)


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
        """Nothing is buffered elsewhere."""

    def take(self) -> Iterator[bytes]:
        """The bytes written since the last call, in pieces."""
        pieces, self._pieces = self._pieces, []
        return (bytes(one) if isinstance(one, bytearray) else one for one in pieces)


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
                    for part in sink.take():
                        yield part
            for part in sink.take():
                yield part
        # The central directory of 100,000 members takes half a second: not in the event loop.
        await asyncio.to_thread(archive.close)
    finally:
        # Of an archive that nobody reads to its end no central directory is made.
        archive.fp = None
    for part in sink.take():
        yield part


def _member(name: str, mode: int, stamp: _Time) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, stamp)
    member.external_attr = mode
    # `mkdir` writes these as they are; those of a file come later.
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


# In one string: its hash is in the policy below, which allows no other style.
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;"
    "color:#222;background:#fff}"
    "h1{font-size:1.2em;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}"
    "td,th{padding:.25em .6em;text-align:left;border-bottom:1px solid #ddd;overflow-wrap:anywhere}"
    "td+td,th+th{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "a{color:#06c;text-decoration:none}a:hover{text-decoration:underline}p,footer{color:#555}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}"
    "a{color:#6af}td,th{border-color:#444}}"
)
# The page may load nothing and run nothing; only this style applies.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)
LISTING_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": _POLICY,
    **SAFE,
}
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# Rows per piece.
_BATCH: Final = 500


def entries(tree: FileTree) -> list[tuple[str, Node]]:
    """Directories first, then files, each by name."""
    return sorted(tree.entries.items(), key=lambda one: (isinstance(one[1], File), one[0]))


def document(collection: CachedCollection, address: FileAddress, tree: FileTree) -> JSON:
    """The JSON listing: {collection, portable_data_hash, path, items: [{name, type, size}]}."""
    return {
        "collection": address.collection,
        "portable_data_hash": collection.pdh,
        "path": address.path,
        "items": [
            {"name": name, "type": "file", "size": node.size}
            if isinstance(node, File)
            else {"name": name, "type": "directory"}
            for name, node in entries(tree)
        ],
    }


def page(collection: CachedCollection, address: FileAddress, tree: FileTree) -> Iterator[str]:
    """The HTML listing, in pieces."""
    found = entries(tree)
    title = escape(f"{collection.name}/{address.path}".rstrip("/"))
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{_trail(collection, address)}</h1>\n"
    )
    yield f"<p>{_summary(found)}{_downloads(address) if found else ''}</p>\n"
    yield "<table>\n<tr><th>Name</th><th>Size</th></tr>\n"
    for start in range(0, len(found), _BATCH):
        yield "".join(_row(address, name, node) for name, node in found[start : start + _BATCH])
    changed = f", last changed {http_date(collection.modified)}" if collection.modified else ""
    content = f"{escape(collection.uuid)}, content {escape(collection.pdh)}"
    yield f"</table>\n<footer><p>{content}{changed}</p></footer>\n"
    yield "</body></html>\n"


def size_text(size: int) -> str:
    """Human-readable size."""
    value, unit = float(size), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _trail(collection: CachedCollection, address: FileAddress) -> str:
    elements = address.path.split("/") if address.path else []
    parts = [f'<a href="{escape(address.url("", folder=True))}">{escape(collection.name)}</a>']
    for number, element in enumerate(elements, 1):
        above = address.url("/".join(elements[:number]), folder=True)
        parts.append(f'<a href="{escape(above)}">{escape(element)}</a>')
    return " / ".join(parts)


def _summary(found: list[tuple[str, Node]]) -> str:
    files = [node for _, node in found if isinstance(node, File)]
    folders = len(found) - len(files)
    if not found:
        return "Nothing is in this directory."
    return (
        f"{_count(folders, 'directory', 'directories')}, {_count(len(files), 'file', 'files')} of "
        + size_text(sum(file.size for file in files))
    )


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _downloads(address: FileAddress) -> str:
    here = escape(address.url(address.path, folder=True))
    links = (f'<a href="{here}?format={one}" download>{one}</a>' for one in Format)
    return f". All of it as {' or '.join(links)}."


def _row(address: FileAddress, name: str, node: Node) -> str:
    folder = isinstance(node, FileTree)
    path = f"{address.path}/{name}" if address.path else name
    shown = escape(f"{name}/" if folder else name)
    size = "" if isinstance(node, FileTree) else size_text(node.size)
    return (
        f'<tr><td><a href="{escape(address.url(path, folder=folder))}">{shown}</a></td>'
        f"<td>{size}</td></tr>\n"
    )


def subtree(tree: FileTree, path: str) -> FileTree:
    """The directory at `path` as a tree with this one directory; the whole tree for the root."""
    # The archive contains the directory under its name.
    name = path.rpartition("/")[2]
    found = filetree.subtree(tree, path)
    return FileTree({name: found}) if name else found

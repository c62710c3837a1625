"""Logs of a request's containers as files, and their listing for WebDAV clients.

The path is `log/<container uuid>/<path>`. Files come from the spool while a container runs, from
the saved log afterwards. A single range of bytes is served (206), because clients follow a growing
file by asking for the bytes after those that they have.

GET of a directory lists its files. PROPFIND (RFC 4918) answers names, sizes and the type of each
entry: depth 0 the target alone, any other depth also its direct entries.

Source: docs/spec/api, section Logs endpoint.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import BinaryIO, Final
from urllib.parse import quote
from xml.sax.saxutils import escape

from lading.api.container_access.access import ContainerAccess
from lading.api.http import ApiCall, ApiResponse
from lading.api.server.blocks import Blocks
from lading.core.containers.container import HELD, Container
from lading.core.containers.finalize import LOG_DIRECTORY
from lading.core.data import filetree
from lading.core.data.manifest_parts import subtree
from lading.core.errors import LadingError, NotFound, from_status
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Database, Transaction

# Bytes of a file that are read into memory at a time.
PART: Final = 1 << 18
# One range of RFC 9110, section 14.1.2; either end may be missing.
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")
PROPFIND: Final = "PROPFIND"
_HEADERS: Final = {"Content-Type": "application/xml; charset=utf-8", "DAV": "1"}


async def serve(
    tx: Transaction, call: ApiCall, row: Record, container: Container | None
) -> ApiResponse:
    """Answer a path below `log/` of the request `row`, whose present container is `container`.
    Raises NotFound.
    """
    uuid, _, path = call.subpath.partition("/")
    path = path.strip("/")
    attempts = [row["container_uuid"], *(row["attempted_container_uuids"] or [])]
    if not uuid:
        return _listing(
            call, (PropfindEntry(name=attempt) for attempt in dict.fromkeys(attempts) if attempt)
        )
    if uuid not in attempts:
        raise NotFound(f"Path not found: {uuid[:60]!r} is not a container of this request")
    if container is not None and container.uuid == uuid and container.state in HELD:
        return await _serve_live(call, uuid, path)
    saved = await records.get(tx, COLLECTIONS, row["log_uuid"]) if row["log_uuid"] else None
    manifest_text = subtree(saved["manifest_text"], f"{LOG_DIRECTORY}{uuid}") if saved else ""
    # The container has ended, and its log is being saved: until then the spool has it.
    if not manifest_text and call.services.access.spool.names(uuid):
        return await _serve_live(call, uuid, path)
    return _serve_saved(call, filetree.from_manifest(manifest_text), path)


async def _serve_live(call: ApiCall, uuid: str, path: str) -> ApiResponse:
    spool = call.services.access.spool
    if not path:
        return _listing(
            call,
            (
                PropfindEntry(name=name, size=_size(spool.open(uuid, name)))
                for name in spool.names(uuid)
            ),
        )
    # Opened before anything is answered: the spool may go at any moment, once the log is saved.
    file = spool.open(uuid, path)
    if file is None:
        raise NotFound(f"Path not found: no log {path[:80]!r} yet")
    if call.method == PROPFIND:
        return describe_entries(call, PropfindEntry(size=_size(file)))
    try:
        start, end, size, partial = _span(call, os.fstat(file.fileno()).st_size)
    except LadingError:
        file.close()
        raise
    stream = read_file(file, start, end)
    # Starts the generator, which owns the file from now on (see `read_file`).
    await anext(stream)
    return _answer(stream, start, end, size, partial=partial)


class LastBlock:
    """A cache of the block that was read last, so that a reader of many small parts reads each
    block once.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._locator, self._data = "", b""

    async def get(self, locator: str, /) -> bytes:
        """The bytes of a block. Raises as `Blocks.get`."""
        if locator != self._locator:
            self._locator, self._data = "", b""
            # Released before the next is read: two blocks would be 128 MiB.
            self._data = await self._blocks.get(locator)
            self._locator = locator
        return self._data


async def read_part(
    database: Database,
    container_access: ContainerAccess,
    row: Record,
    uuid: str,
    name: str,
    start: int,
    *,
    blocks: LastBlock,
) -> bytes:
    """At most `PART` bytes from `start` of a file in the log of a container; b"" behind the end."""
    file = container_access.spool.open(uuid, name)
    if file is not None:
        stream = read_file(file, start, start + PART)
        async with aclosing(stream) as pieces:
            return b"".join([piece async for piece in pieces])
    async with database.reading() as tx:
        saved = await records.get(tx, COLLECTIONS, row["log_uuid"]) if row["log_uuid"] else None
    tree = filetree.from_manifest(
        subtree(saved["manifest_text"], f"{LOG_DIRECTORY}{uuid}") if saved else ""
    )
    found = filetree.find(tree, name)
    if not isinstance(found, filetree.File):
        return b""
    return b"".join(
        [piece async for piece in _read_blocks(blocks, found, start, min(found.size, start + PART))]
    )


def _serve_saved(call: ApiCall, tree: filetree.FileTree, path: str) -> ApiResponse:
    entry = filetree.find(tree, path)
    if entry is None and not path:
        return _listing(call, ())
    if isinstance(entry, filetree.FileTree):
        return _listing(
            call, (_entry(name, child) for name, child in sorted(entry.entries.items()))
        )
    if entry is None:
        raise NotFound(f"Path not found: no log {path[:80]!r}")
    if call.method == PROPFIND:
        return describe_entries(call, PropfindEntry(size=entry.size))
    start, end, size, partial = _span(call, entry.size)
    return _answer(
        _read_blocks(LastBlock(call.services.blocks), entry, start, end),
        start,
        end,
        size,
        partial=partial,
    )


def _listing(call: ApiCall, entries: Iterable[PropfindEntry]) -> ApiResponse:
    """The entries of a directory: as JSON, or for WebDAV clients as a multi-status."""
    if call.method == PROPFIND:
        return describe_entries(call, PropfindEntry(), entries)
    return ApiResponse(body={"items": [{"name": entry.name} for entry in entries]})


def _entry(name: str, node: filetree.FileTree | filetree.File) -> PropfindEntry:
    return PropfindEntry(name=name, size=None if isinstance(node, filetree.FileTree) else node.size)


def _size(file: BinaryIO | None) -> int:
    """The size of a file, which is closed."""
    if file is None:
        return 0
    with file:
        return os.fstat(file.fileno()).st_size


def _answer(
    stream: AsyncGenerator[bytes], start: int, end: int, size: int, *, partial: bool
) -> ApiResponse:
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(end - start),
        "Accept-Ranges": "bytes",
    }
    if partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return ApiResponse(stream=stream, status=206 if partial else 200, headers=headers)


def _span(call: ApiCall, size: int) -> tuple[int, int, int, bool]:
    """Begin and end of the requested bytes, the size of the file, and whether a range was
    requested.

    `bytes=-0`, the last 0 bytes, is an empty range: `arvados-client logs` asks so how long a file
    is, an empty one too. RFC 9110 has no such range, Go's file server answers it with 206 and
    `bytes SIZE-(SIZE - 1)/SIZE`.
    """
    match = _RANGE.fullmatch(call.headers.get("range", ""))
    if match is None or match.groups() == ("", ""):
        return 0, size, size, False
    first, last = match.groups()
    if not first and int(last) == 0:
        return size, size, size, True
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    # RFC 9110, 15.5.17.
    if start >= size or end <= start:
        raise from_status(416, f"Range: bytes {start}- are not there: the file has {size}")
    return start, end, size, True


async def read_file(file: BinaryIO, start: int, end: int) -> AsyncGenerator[bytes]:
    """The bytes of an open file from `start` to `end`, after an empty piece; then close it."""

    def part(at: int) -> bytes:
        file.seek(at)
        return file.read(min(PART, end - at))

    with file:
        # The caller takes this empty piece at once: from then on, closing the generator closes the
        # file.
        yield b""
        while start < end:
            data = await asyncio.to_thread(part, start)
            if not data:
                return
            yield data
            start += len(data)


async def _read_blocks(
    blocks: LastBlock, file: filetree.File, start: int, end: int
) -> AsyncGenerator[bytes]:
    """The bytes of a saved file from `start` up to `end`, in parts; large blocks are not copied."""
    at = 0
    for segment in file.segments:
        low, high = max(start, at), min(end, at + segment.length)
        for first in range(low, high, PART):
            block, offset = await blocks.get(segment.locator), segment.offset + first - at
            yield block[offset : offset + min(PART, high - first)]
        at += segment.length


@dataclass(frozen=True, slots=True, kw_only=True)
class PropfindEntry:
    """One file, of `size` bytes, or directory, of None; `name` is "" for the target."""

    name: str = ""
    size: int | None = None


def offered(path: str) -> dict[str, str]:
    """The header by which clients find that these paths support WebDAV."""
    return {"DAV": "1"} if "/container_requests/" in path and "/log" in path else {}


def describe_entries(
    call: ApiCall, target: PropfindEntry, inside: Iterable[PropfindEntry] = ()
) -> ApiResponse:
    """207 Multi-Status: the target, and unless Depth is 0 its entries."""
    entries = [target] if call.headers.get("depth") == "0" else [target, *inside]
    parts = "".join(_response(call.path.rstrip("/"), entry) for entry in entries)
    document = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<D:multistatus xmlns:D="DAV:">{parts}</D:multistatus>\n'
    )
    return ApiResponse(body=document.encode(), status=207, headers=dict(_HEADERS))


def _response(base: str, entry: PropfindEntry) -> str:
    path = "/".join(segment for segment in (base, entry.name) if segment)
    name = path.rpartition("/")[2]
    href = escape(quote(path) + ("/" if entry.size is None else ""))
    if entry.size is None:
        type_properties = "<D:resourcetype><D:collection/></D:resourcetype>"
    else:
        type_properties = f"<D:resourcetype/><D:getcontentlength>{entry.size}</D:getcontentlength>"
    properties = f"<D:displayname>{escape(_printable(name))}</D:displayname>{type_properties}"
    status = "<D:status>HTTP/1.1 200 OK</D:status>"
    return (
        f"<D:response><D:href>{href}</D:href>"
        f"<D:propstat><D:prop>{properties}</D:prop>{status}</D:propstat></D:response>"
    )


def _printable(name: str) -> str:
    """The text without control characters, which XML does not allow even escaped."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name
    )

"""GET and HEAD: files in whole or in ranges, directories as an archive, a page, or JSON.

The address of a directory ends in `/`; without it the reader is redirected. The parameter `format`
(zip, tar, json, html), else the Accept header, chooses the form of a directory.
`disposition=attachment` makes a file a download.

Listings are HTML without scripts, or JSON, and streamed. All names and addresses are escaped, and
the page may load nothing.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from hashlib import sha256
from html import escape
from typing import Final

import msgspec

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Node
from lading.core.errors import Malformed, NotFound, from_status
from lading.core.records.schema import JSON
from lading.fileserving import byte_ranges, conditions, media_types
from lading.fileserving.byte_ranges import Span
from lading.fileserving.collection_cache import CachedCollection, tag_of
from lading.fileserving.conditions import ConditionResult, ResourceState, http_date
from lading.fileserving.media_types import SAFE_HEADERS as SAFE
from lading.fileserving.responses import FileResponse
from lading.fileserving.responses import begin_stream as begin
from lading.webdav.archives import ARCHIVE_MEDIA, Format, stream_archive
from lading.webdav.file_request import DavRequest, DavServices, FileAddress

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
_JSON: Final = "json"
_PAGE: Final = "html"
_FORMATS: Final = {
    "application/json": _JSON,
    **{media_type: str(archive) for archive, media_type in ARCHIVE_MEDIA.items()},
}
# Browsers may keep a file, but must ask whether it is still the same.
_FRESH: Final = {"Cache-Control": "private, no-cache"}


def entries(tree: FileTree) -> list[tuple[str, Node]]:
    """Directories first, then files, each by name."""
    return sorted(tree.entries.items(), key=lambda entry: (isinstance(entry[1], File), entry[0]))


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
    listed = entries(tree)
    title = escape(f"{collection.name}/{address.path}".rstrip("/"))
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{_trail(collection, address)}</h1>\n"
    )
    yield f"<p>{_summary(listed)}{_downloads(address) if listed else ''}</p>\n"
    yield "<table>\n<tr><th>Name</th><th>Size</th></tr>\n"
    for start in range(0, len(listed), _BATCH):
        yield "".join(_row(address, name, node) for name, node in listed[start : start + _BATCH])
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


def _summary(listed: list[tuple[str, Node]]) -> str:
    files = [node for _, node in listed if isinstance(node, File)]
    folders = len(listed) - len(files)
    if not listed:
        return "Nothing is in this directory."
    return (
        f"{_count(folders, 'directory', 'directories')}, {_count(len(files), 'file', 'files')} of "
        + size_text(sum(file.size for file in files))
    )


def _count(number: int, singular: str, more: str) -> str:
    return f"{number} {singular if number == 1 else more}"


def _downloads(address: FileAddress) -> str:
    here = escape(address.url(address.path, folder=True))
    links = (f'<a href="{here}?format={archive}" download>{archive}</a>' for archive in Format)
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


async def serve(parts: DavServices, request: DavRequest) -> FileResponse:
    """The response to a GET or HEAD. Raises NotFound and errors of opening and reading."""
    collection = await parts.files.collections.open(request.address.collection, request.token)
    node = filetree.find(collection.tree, request.address.path)
    if node is None or (isinstance(node, File) and request.address.folder):
        raise NotFound(f"Path not found: {request.address.path[:200]!r} is not in the collection")
    if isinstance(node, File):
        return await _file(parts, request, collection, node)
    return await _directory(parts, request, collection, node)


async def _file(
    parts: DavServices, request: DavRequest, collection: CachedCollection, file: File
) -> FileResponse:
    tag = tag_of(file)
    state = ResourceState(tag, collection.modified)
    name = request.address.path.rpartition("/")[2]
    headers = {
        **media_types.headers_of(name, attachment=request.parameter("disposition") == "attachment")
    }
    headers |= {**_FRESH, "ETag": f'"{tag}"', "Accept-Ranges": "bytes"}
    if collection.modified:
        headers["Last-Modified"] = http_date(collection.modified)
    match conditions.judge_conditions(request.headers, state, reads=True):
        case ConditionResult.NOT_MODIFIED:
            return FileResponse(status=304, headers=headers)
        case ConditionResult.REFUSED:
            raise from_status(412, f"{name}: does not meet the conditions of the request")
    spans = byte_ranges.parse_ranges(request.headers.get("range"), file.size)
    # A range of a HEAD is ignored (RFC 9110, 14.2).
    if request.method == "HEAD" or not conditions.range_holds(request.headers, state):
        spans = None
    if spans == ():
        headers = {
            "Content-Range": f"bytes */{file.size}",
            "Content-Type": "text/plain; charset=utf-8",
        }
        return FileResponse(
            status=416, headers=headers, body=f"Range: the file has {file.size} bytes\n".encode()
        )
    return await _content(parts, request, file, spans, headers)


async def _content(
    parts: DavServices,
    request: DavRequest,
    file: File,
    spans: tuple[Span, ...] | None,
    headers: dict[str, str],
) -> FileResponse:
    if spans is not None and len(spans) > 1:
        return await _several(parts, request, file, spans, headers)
    span = spans[0] if spans else Span(0, file.size)
    headers["Content-Length"] = str(len(span))
    if spans:
        headers["Content-Range"] = span.header(file.size)
    status = 206 if spans else 200
    if request.method == "HEAD" or not len(span):
        return FileResponse(status=status, headers=headers)
    # `begin`: an error of the first block becomes the status of the response.
    return FileResponse(
        status=status, headers=headers, stream=await begin(_bytes(parts, request, file, span))
    )


async def _several(
    parts: DavServices,
    request: DavRequest,
    file: File,
    spans: tuple[Span, ...],
    headers: dict[str, str],
) -> FileResponse:
    # Unguessable, so that no file can contain it.
    boundary = os.urandom(16).hex()
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {headers['Content-Type']}\r\n"
        f"Content-Range: {span.header(file.size)}\r\n\r\n".encode()
        for span in spans
    ]
    end = f"\r\n--{boundary}--\r\n".encode()

    async def stream() -> AsyncGenerator[bytes]:
        for head, span in zip(heads, spans, strict=True):
            yield head
            async with aclosing(_bytes(parts, request, file, span)) as pieces:
                async for piece in pieces:
                    yield piece
        yield end

    # Known before the first byte is sent.
    length = sum(map(len, heads)) + sum(map(len, spans)) + len(end)
    headers |= {
        "Content-Type": f"multipart/byteranges; boundary={boundary}",
        "Content-Length": str(length),
    }
    return FileResponse(status=206, headers=headers, stream=await begin(stream()))


async def _bytes(
    parts: DavServices, request: DavRequest, file: File, span: Span
) -> AsyncGenerator[bytes]:
    async with (
        parts.files.reader.reading(request.token) as reading,
        aclosing(reading.read(file, span)) as pieces,
    ):
        async for piece in pieces:
            yield piece


async def _directory(
    parts: DavServices, request: DavRequest, collection: CachedCollection, tree: FileTree
) -> FileResponse:
    address = request.address
    form = _form(request)
    if form in (Format.ZIP, Format.TAR):
        return await _archive(parts, request, collection, Format(form))
    if form == _JSON:
        body = msgspec.json.encode(document(collection, address, tree))
        return FileResponse(
            headers={"Content-Type": "application/json", **_FRESH, **media_types.SAFE_HEADERS},
            body=body,
        )
    # Relative links of the page need the slash.
    if not address.folder:
        query = f"?{request.query}" if request.query else ""
        return FileResponse(
            status=302, headers={"Location": address.url(address.path, folder=True) + query}
        )
    return FileResponse(
        headers={**LISTING_HEADERS, **_FRESH},
        stream=_encoded(page(collection, address, tree)),
    )


def _form(request: DavRequest) -> str:
    """The requested form of a directory. Raises Malformed."""
    form = request.parameter("format")
    if form:
        if form not in (*Format, _JSON, _PAGE):
            raise Malformed(f"format: must be zip, tar, json or html, not {form[:40]!r}")
        return form
    # `accept` as a parameter is for links.
    accepted = request.parameter("accept") or request.headers.get("accept", "")
    for accepted_type in accepted.split(","):
        kind = accepted_type.partition(";")[0].strip().lower()
        if kind in ("text/html", "*/*"):
            return _PAGE
        if kind in _FORMATS:
            return _FORMATS[kind]
    return _PAGE


async def _archive(
    parts: DavServices, request: DavRequest, collection: CachedCollection, form: Format
) -> FileResponse:
    path = request.address.path
    # A collection's name may contain a slash.
    name = f"{path.rpartition('/')[2] or collection.name}.{form}"
    headers = {
        "Content-Type": ARCHIVE_MEDIA[form],
        "Content-Disposition": media_types.disposition("attachment", name.replace("/", "_")),
        **_FRESH,
        **media_types.SAFE_HEADERS,
    }
    stream = _packed(parts, request, collection, form)
    return FileResponse(
        headers=headers, stream=await begin(stream) if request.method == "GET" else stream
    )


async def _packed(
    parts: DavServices, request: DavRequest, collection: CachedCollection, form: Format
) -> AsyncGenerator[bytes]:
    tree = subtree(collection.tree, request.address.path)
    async with parts.files.reader.reading(request.token) as reading:

        def read(file: File) -> AsyncGenerator[bytes]:
            return reading.read(file, Span(0, file.size))

        async with aclosing(
            stream_archive(form, tree, read=read, modified=collection.modified)
        ) as pieces:
            async for piece in pieces:
                yield piece


async def _encoded(pieces: Iterator[str]) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece.encode()

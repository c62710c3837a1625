"""GET and HEAD: files in whole or in ranges, directories as a page, as JSON, or as an archive.

The address of a directory ends in `/`; without it the reader is redirected. The parameter `format`
(zip, tar, json, html), else the Accept header, chooses the form of a directory.
`disposition=attachment` makes a file a download.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final

import msgspec

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Malformed, NotFound, from_status
from lading.webdav import contents, directories, http
from lading.webdav.contents import CachedCollection, Span, tag_of
from lading.webdav.directories import Format
from lading.webdav.file_request import DavRequest, DavServices
from lading.webdav.http import ConditionResult, DavResponse, ResourceState, http_date
from lading.webdav.http import begin_stream as begin

_JSON: Final = "json"
_PAGE: Final = "html"
_FORMATS: Final = {
    "application/json": _JSON,
    **{media_types: str(one) for one, media_types in directories.ARCHIVE_MEDIA.items()},
}
# Browsers may keep a file, but must ask whether it is still the same.
_FRESH: Final = {"Cache-Control": "private, no-cache"}


async def serve(parts: DavServices, request: DavRequest) -> DavResponse:
    """The response to a GET or HEAD. Raises NotFound and errors of opening and reading."""
    collection = await parts.collections.open(request.address.collection, request.token)
    node = filetree.find(collection.tree, request.address.path)
    if node is None or (isinstance(node, File) and request.address.folder):
        raise NotFound(f"Path not found: {request.address.path[:200]!r} is not in the collection")
    if isinstance(node, File):
        return await _file(parts, request, collection, node)
    return await _directory(parts, request, collection, node)


async def _file(
    parts: DavServices, request: DavRequest, collection: CachedCollection, file: File
) -> DavResponse:
    tag = tag_of(file)
    state = ResourceState(tag, collection.modified)
    name = request.address.path.rpartition("/")[2]
    headers = {**http.headers_of(name, attachment=request.parameter("disposition") == "attachment")}
    headers |= {**_FRESH, "ETag": f'"{tag}"', "Accept-Ranges": "bytes"}
    if collection.modified:
        headers["Last-Modified"] = http_date(collection.modified)
    match http.judge_conditions(request.headers, state, reads=True):
        case ConditionResult.NOT_MODIFIED:
            return DavResponse(status=304, headers=headers)
        case ConditionResult.REFUSED:
            raise from_status(412, f"{name}: is not what the conditions of the request name")
    wanted = contents.parse_ranges(request.headers.get("range"), file.size)
    # A range of a HEAD is ignored (RFC 9110, 14.2).
    if request.method == "HEAD" or not http.range_holds(request.headers, state):
        wanted = None
    if wanted == ():
        headers = {
            "Content-Range": f"bytes */{file.size}",
            "Content-Type": "text/plain; charset=utf-8",
        }
        return DavResponse(
            status=416, headers=headers, body=f"Range: the file has {file.size} bytes\n".encode()
        )
    return await _content(parts, request, file, wanted, headers)


async def _content(
    parts: DavServices,
    request: DavRequest,
    file: File,
    wanted: tuple[Span, ...] | None,
    headers: dict[str, str],
) -> DavResponse:
    if wanted is not None and len(wanted) > 1:
        return await _several(parts, request, file, wanted, headers)
    span = wanted[0] if wanted else Span(0, file.size)
    headers["Content-Length"] = str(len(span))
    if wanted:
        headers["Content-Range"] = span.header(file.size)
    status = 206 if wanted else 200
    if request.method == "HEAD" or not len(span):
        return DavResponse(status=status, headers=headers)
    # `begin`: an error of the first block becomes the status of the response.
    return DavResponse(
        status=status, headers=headers, stream=await begin(_bytes(parts, request, file, span))
    )


async def _several(
    parts: DavServices,
    request: DavRequest,
    file: File,
    wanted: tuple[Span, ...],
    headers: dict[str, str],
) -> DavResponse:
    # Unguessable, so that no file can contain it.
    boundary = os.urandom(16).hex()
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {headers['Content-Type']}\r\n"
        f"Content-Range: {span.header(file.size)}\r\n\r\n".encode()
        for span in wanted
    ]
    end = f"\r\n--{boundary}--\r\n".encode()

    async def stream() -> AsyncGenerator[bytes]:
        for head, span in zip(heads, wanted, strict=True):
            yield head
            async with aclosing(_bytes(parts, request, file, span)) as pieces:
                async for piece in pieces:
                    yield piece
        yield end

    # Known before the first byte is sent.
    length = sum(map(len, heads)) + sum(map(len, wanted)) + len(end)
    headers |= {
        "Content-Type": f"multipart/byteranges; boundary={boundary}",
        "Content-Length": str(length),
    }
    return DavResponse(status=206, headers=headers, stream=await begin(stream()))


async def _bytes(
    parts: DavServices, request: DavRequest, file: File, span: Span
) -> AsyncGenerator[bytes]:
    async with (
        parts.reader.reading(request.token) as reading,
        aclosing(reading.read(file, span)) as pieces,
    ):
        async for piece in pieces:
            yield piece


async def _directory(
    parts: DavServices, request: DavRequest, collection: CachedCollection, tree: FileTree
) -> DavResponse:
    address = request.address
    form = _form(request)
    if form in (Format.ZIP, Format.TAR):
        return await _archive(parts, request, collection, Format(form))
    if form == _JSON:
        body = msgspec.json.encode(directories.document(collection, address, tree))
        return DavResponse(
            headers={"Content-Type": "application/json", **_FRESH, **http.SAFE_HEADERS}, body=body
        )
    # Relative links of the page need the slash.
    if not address.folder:
        query = f"?{request.query}" if request.query else ""
        return DavResponse(
            status=302, headers={"Location": address.url(address.path, folder=True) + query}
        )
    return DavResponse(
        headers={**directories.LISTING_HEADERS, **_FRESH},
        stream=_encoded(directories.page(collection, address, tree)),
    )


def _form(request: DavRequest) -> str:
    """The requested form of a directory. Raises Malformed."""
    wanted = request.parameter("format")
    if wanted:
        if wanted not in (*Format, _JSON, _PAGE):
            raise Malformed(f"format: must be zip, tar, json or html, not {wanted[:40]!r}")
        return wanted
    # `accept` as a parameter is for links.
    accepted = request.parameter("accept") or request.headers.get("accept", "")
    for one in accepted.split(","):
        kind = one.partition(";")[0].strip().lower()
        if kind in ("text/html", "*/*"):
            return _PAGE
        if kind in _FORMATS:
            return _FORMATS[kind]
    return _PAGE


async def _archive(
    parts: DavServices, request: DavRequest, collection: CachedCollection, form: Format
) -> DavResponse:
    path = request.address.path
    # A collection's name may contain a slash.
    name = f"{path.rpartition('/')[2] or collection.name}.{form}"
    headers = {
        "Content-Type": directories.ARCHIVE_MEDIA[form],
        "Content-Disposition": http.disposition("attachment", name.replace("/", "_")),
        **_FRESH,
        **http.SAFE_HEADERS,
    }
    stream = _packed(parts, request, collection, form)
    return DavResponse(
        headers=headers, stream=await begin(stream) if request.method == "GET" else stream
    )


async def _packed(
    parts: DavServices, request: DavRequest, collection: CachedCollection, form: Format
) -> AsyncGenerator[bytes]:
    tree = directories.subtree(collection.tree, request.address.path)
    async with parts.reader.reading(request.token) as reading:

        def read(file: File) -> AsyncGenerator[bytes]:
            return reading.read(file, Span(0, file.size))

        async with aclosing(
            directories.stream_archive(form, tree, read=read, modified=collection.modified)
        ) as pieces:
            async for piece in pieces:
                yield piece


async def _encoded(pieces: Iterator[str]) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece.encode()

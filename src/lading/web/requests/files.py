"""The files that a request has made: their list, previews, and safe downloads.

A file is what a stranger's program wrote: it is never shown as a page of this origin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from lading.client.api import Record
from lading.client.request_states import shown_command
from lading.core.data import filetree
from lading.core.data.filetree import FileTree
from lading.core.errors import NotFound
from lading.web import browser_rules, previews
from lading.web.visit import Visit

_MOST: Final = 500
"""Entries of a directory that are listed."""
_LARGEST: Final = 50_000
"""Files of a collection whose tree is made for a list."""
_FIELDS: Final = ("uuid", "portable_data_hash", "file_count", "file_size_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEntry:
    """A file of `size` bytes, or a directory with the size None."""

    name: str
    path: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputListing:
    """A directory of an output; `total` counts its entries, of which some may not be listed."""

    collection: str
    path: str
    entries: list[OutputEntry]
    total: int
    file_count: int
    bytes: int
    is_too_large: bool = False

    @property
    def parents(self) -> list[tuple[str, str]]:
        """Name and path of each directory above and of this one."""
        names = self.path.split("/") if self.path else []
        return [(name, "/".join(names[: end + 1])) for end, name in enumerate(names)]


async def look(
    visit: Visit, request: Record, container: Record | None, *, path: str, most: int = _MOST
) -> OutputListing | None:
    """The directory `path` of the output with its first `most` entries; None for a request without
    an output. Raises NotFound.
    """
    name = request["output_uuid"] or (container or {}).get("output")
    return await look_into(visit, name, path=path, most=most) if name else None


async def look_into(visit: Visit, name: str, *, path: str, most: int = _MOST) -> OutputListing:
    """The directory `path` of the collection with a uuid or a hash, with its first `most` entries.
    Raises NotFound.
    """
    about = await visit.api.get("collections", name, select=_FIELDS)
    facts: dict[str, Any] = {
        "collection": about.get("uuid") or name,
        "path": path,
        "file_count": about.get("file_count") or 0,
        "bytes": about.get("file_size_total") or 0,
    }
    if facts["file_count"] > _LARGEST:
        return OutputListing(**facts, entries=[], total=0, is_too_large=True)
    record = await visit.api.get("collections", name, select=("unsigned_manifest_text",))
    entries = await asyncio.to_thread(_entries, record["unsigned_manifest_text"], path)
    return OutputListing(**facts, entries=entries[:most], total=len(entries))


async def show(visit: Visit) -> Response:
    """A directory of the output as a page."""
    request, container = await _records(visit)
    listing = await look(visit, request, container, path=visit.query("path").strip("/"))
    if listing is None:
        raise NotFound("This request has no output yet")
    title = request["name"] or shown_command(request)
    return visit.page("request_files.html", request=request, files=listing, title=title)


async def show_file(visit: Visit) -> Response:
    """A preview of a file of the output."""
    request, container = await _records(visit)
    page_address = f"/ui/requests/{request['uuid']}/files"
    file_preview = await previews.preview(visit, _source(visit, request, container), page_address)
    title = request["name"] or shown_command(request)
    return previews.show_page(
        visit, "request_file.html", file_preview, request=request, title=title
    )


async def show_raw(visit: Visit) -> Response:
    """The bytes of a picture or of HTML for its preview."""
    return await previews.send_raw(visit, _source(visit, *await _records(visit)))


async def download(visit: Visit) -> Response:
    """A file of the output, to be saved."""
    source = _source(visit, *await _records(visit))
    return await passed_on(visit, source, visit.query("path").rpartition("/")[2])


def _source(visit: Visit, request: Record, container: Record | None) -> str:
    """Path on the server of the file of the address. Raises NotFound."""
    path = visit.query("path").strip("/")
    name = request["output_uuid"] or (container or {}).get("output")
    if not name or not path:
        raise NotFound("There is no such file")
    return file_address(name, path)


def file_address(name: str, path: str) -> str:
    """Path on the server of a file of the collection with a uuid or a hash."""
    # `_`: what follows is a path, even if it begins like a token (docs/spec/api, Files over HTTP).
    return f"/by_id/{quote(name)}/_/{quote(path, safe='/')}"


async def passed_on(visit: Visit, source: str, name: str) -> Response:
    """The response of the server for `source`, as a file to be saved. Raises as the API does."""
    opened = AsyncExitStack()
    try:
        answer = await opened.enter_async_context(visit.api.stream(source))
    except BaseException:
        await opened.aclose()
        raise

    async def pieces() -> AsyncGenerator[bytes]:
        async with opened:
            async for piece in answer.chunks:
                yield piece

    return saved(pieces(), name, **_length(answer.headers))


def saved(pieces: AsyncGenerator[bytes], name: str, **headers: str) -> Response:
    """Bytes as a file to be saved, never shown as a page of this origin."""
    fixed = {
        "Content-Disposition": _attachment(name),
        "Content-Security-Policy": browser_rules.DOWNLOAD,
        "Cache-Control": "no-store",
    }
    kind = "application/octet-stream"
    return StreamingResponse(pieces, media_type=kind, headers={**fixed, **headers})


async def _records(visit: Visit) -> tuple[Record, Record | None]:
    uuid = visit.parts["uuid"]
    fields = ("uuid", "name", "command", "output_uuid", "container_uuid")
    request = await visit.api.get("container_requests", uuid, select=fields)
    container_uuid = request["container_uuid"]
    if request["output_uuid"] or not container_uuid:
        return request, None
    return request, await visit.api.get("containers", container_uuid, select=("uuid", "output"))


def _entries(manifest: str, path: str) -> list[OutputEntry]:
    """The entries of a directory, directories first. Raises NotFound."""
    node = filetree.get(filetree.from_manifest(manifest), path)
    if not isinstance(node, FileTree):
        raise NotFound(f"{path[:80]!r} is no directory")
    above = f"{path}/" if path else ""
    entries = [
        OutputEntry(
            name=name, path=above + name, size=None if isinstance(child, FileTree) else child.size
        )
        for name, child in node.entries.items()
    ]
    return sorted(entries, key=lambda entry: (entry.size is not None, entry.name))


def _attachment(name: str) -> str:
    """A Content-Disposition header (RFC 6266) for any name."""
    plain = "".join(
        character if character.isascii() and (character.isalnum() or character in "._- ") else "_"
        for character in name
    )
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _length(headers: Mapping[str, str]) -> dict[str, str]:
    length = headers.get("content-length", "")
    return {"Content-Length": length} if length.isdigit() else {}

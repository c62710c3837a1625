"""Uploads: a new collection, and files put into one as they come from the browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import Response as PageResponse

from lading.client.api import error_of
from lading.client.transport import Response
from lading.core.errors import Conflict, Malformed, from_status
from lading.core.ids import Infix
from lading.web.data import entries
from lading.web.requests import files
from lading.web.visit import Visit

_STALLED: Final = 60.0
"""Seconds between two pieces of a file."""
_STORING: Final = 300.0
"""Seconds without a sign of the server that stores the file."""
# 412 Precondition Failed: a file of this name is there.
_TAKEN: Final = 412


async def create_collection(visit: Visit) -> PageResponse:
    """Make an empty collection in the project."""
    owner = entries.need_uuid(visit, Infix.GROUP, Infix.USER)
    made = await visit.api.create(
        "collections",
        {"name": entries.need_name(visit), "owner_uuid": owner, "manifest_text": ""},
    )
    return visit.redirect(entries.collection_place(made["uuid"]))


async def put(visit: Visit) -> PageResponse:
    """Put the body as a new file into the collection, at `path`. Raises as the API does.

    The body is passed on piece by piece. A file that is there already is never replaced.
    """
    uuid, path = entries.need_uuid(visit, Infix.COLLECTION), visit.query("path")
    length = visit.incoming.headers.get("content-length", "")
    if not path:
        raise Malformed("path: is missing; name the file")
    if not length.isdigit():
        # Else a body that breaks off would look like a whole file.
        raise from_status(411, "Content-Length: is missing; send the size of the file")
    sent = {**visit.api.headers, "Content-Length": length, "If-None-Match": "*"}
    async with visit.api.transport.stream(
        "PUT",
        files.file_address(uuid, path),
        headers=sent,
        body=_pieces(visit, int(length)),
        timeout=_STORING,
    ) as begun:
        answer = Response(begun.status, begun.headers, await begun.read())
    if answer.status == _TAKEN:
        raise Conflict(f"{path[:200]}: is there already; rename the file and upload it again")
    if answer.status >= 400:
        raise error_of(answer, f"PUT {path[:200]}")
    return PageResponse(status_code=201)


async def _pieces(visit: Visit, length: int) -> AsyncGenerator[bytes]:
    stream, left = aiter(visit.incoming.stream()), length
    while True:
        try:
            async with asyncio.timeout(_STALLED):
                piece = await anext(stream)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise from_status(408, "the file did not come in time; upload it again") from None
        left -= len(piece)
        yield piece
    if left:
        # A part of a file must not be kept as the file.
        raise Malformed("the file did not come as a whole; upload it again")

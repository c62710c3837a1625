"""Style and scripts of the page. They change only with the program, so browsers keep them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from starlette.responses import Response

from lading.core.errors import NotFound
from lading.web.rendering import STATIC
from lading.web.visit import Visit

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


async def serve(visit: Visit) -> Response:
    """A file of `static/`, or of a folder below it. Raises NotFound."""
    name, folder = visit.parts["name"], visit.parts.get("folder", "")
    path = STATIC / folder / name
    kind = _TYPES.get(path.suffix)
    # The parts hold no slash: two dots are the only way out.
    if kind is None or ".." in (folder, name):
        raise NotFound("There is no such file")
    try:
        data = await asyncio.to_thread(path.read_bytes)
    except OSError:
        raise NotFound(f"There is no file {name[:80]}") from None
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if visit.incoming.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=kind, headers=headers)

"""Style and scripts of the page. They change only with the program, so browsers keep them."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from starlette.responses import Response

from lading.core.errors import NotFound
from lading.web.compression import accepts_gzip, compress_file
from lading.web.rendering import STATIC
from lading.web.visit import Visit

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _StaticFile:
    data: bytes
    packed: bytes
    tag: str


async def serve(visit: Visit) -> Response:
    """A file of `static/`, or of a folder below it. Raises NotFound."""
    name, folder = visit.parts["name"], visit.parts.get("folder", "")
    path = STATIC / folder / name
    kind = _TYPES.get(path.suffix)
    # The parts hold no slash: two dots are the only way out.
    if kind is None or ".." in (folder, name):
        raise NotFound("There is no such file")
    try:
        file = await asyncio.to_thread(_look_up, path)
    except OSError:
        raise NotFound(f"There is no file {name[:80]}") from None
    packed = accepts_gzip(visit.incoming.headers) and len(file.packed) < len(file.data)
    # Each form has a tag of its own (RFC 9110, section 8.8.3.3).
    tag = f'"{file.tag}-gzip"' if packed else f'"{file.tag}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept-Encoding"}
    if visit.incoming.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.packed if packed else file.data, media_type=kind, headers=headers)


def _look_up(path: Path) -> _StaticFile:
    about = path.stat()
    return _read(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=64)
def _read(path: Path, _time: int, _size: int) -> _StaticFile:
    """A file, compressed. Compressing takes longer than sending, so it is done once."""
    data = path.read_bytes()
    return _StaticFile(data, compress_file(data), hashlib.sha256(data).hexdigest()[:32])

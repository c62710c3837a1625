"""PROPFIND: the logs of a request as a WebDAV client lists them. Source: docs/spec/api, section
Logs endpoint, RFC 4918.

The answer has names, sizes, and the type of each entry. Depth 0 lists the target alone, any other
depth also its direct entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import escape

from lading.api.http import ApiCall, ApiResponse

METHOD: Final = "PROPFIND"
_HEADERS: Final = {"Content-Type": "application/xml; charset=utf-8", "DAV": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PropfindEntry:
    """One file, of `size` bytes, or directory, of None; `name` is "" for the target."""

    name: str = ""
    size: int | None = None


def offered(path: str) -> dict[str, str]:
    """The header that tells clients which paths speak WebDAV."""
    return {"DAV": "1"} if "/container_requests/" in path and "/log" in path else {}


def describe(
    call: ApiCall, target: PropfindEntry, inside: Iterable[PropfindEntry] = ()
) -> ApiResponse:
    """207 Multi-Status: the target, and unless Depth is 0 its entries."""
    entries = [target] if call.headers.get("depth") == "0" else [target, *inside]
    parts = "".join(_response(call.path.rstrip("/"), one) for one in entries)
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<D:multistatus xmlns:D="DAV:">{parts}</D:multistatus>\n'
    )
    return ApiResponse(body=text.encode(), status=207, headers=dict(_HEADERS))


def _response(base: str, entry: PropfindEntry) -> str:
    path = "/".join(part for part in (base, entry.name) if part)
    name = path.rpartition("/")[2]
    href = escape(quote(path) + ("/" if entry.size is None else ""))
    if entry.size is None:
        what = "<D:resourcetype><D:collection/></D:resourcetype>"
    else:
        what = f"<D:resourcetype/><D:getcontentlength>{entry.size}</D:getcontentlength>"
    properties = f"<D:displayname>{escape(_printable(name))}</D:displayname>{what}"
    status = "<D:status>HTTP/1.1 200 OK</D:status>"
    return (
        f"<D:response><D:href>{href}</D:href>"
        f"<D:propstat><D:prop>{properties}</D:prop>{status}</D:propstat></D:response>"
    )


def _printable(text: str) -> str:
    """The text without control characters, which XML does not allow even escaped."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)

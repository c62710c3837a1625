"""PROPFIND: the logs of a request as a WebDAV client lists them.

Source: docs/spec/api, section Containers, RFC 4918.

Only what a reader needs: names, sizes, and which are directories. Depth 0 is the thing itself,
everything else also what is directly in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import escape

from lading.api.http import Answer, Call

METHOD: Final = "PROPFIND"
_HEADERS: Final = {"Content-Type": "application/xml; charset=utf-8", "DAV": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file, of `size` bytes, or directory, of None; `name` is "" for what was asked about."""

    name: str = ""
    size: int | None = None


def offered(path: str) -> dict[str, str]:
    """The header that tells clients where WebDAV is spoken."""
    return {"DAV": "1"} if "/container_requests/" in path and "/log" in path else {}


def describe(call: Call, target: Entry, inside: Iterable[Entry] = ()) -> Answer:
    """207 Multi-Status: the target, and unless Depth is 0 what is in it."""
    entries = [target] if call.headers.get("depth") == "0" else [target, *inside]
    parts = "".join(_response(call.path.rstrip("/"), one) for one in entries)
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<D:multistatus xmlns:D="DAV:">{parts}</D:multistatus>\n'
    )
    return Answer(body=text.encode(), status=207, headers=dict(_HEADERS))


def _response(base: str, entry: Entry) -> str:
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
    """XML takes no control characters, not even escaped."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)

"""Previews of files: text, tables, pictures, documents (PDF), and HTML in a frame of no origin.

A file is what a stranger's program wrote. Text and tables are escaped like all that the page shows.
Pictures are recognized by their first bytes, and sent with that type. HTML, and SVG, which may have
scripts too, is sent with the directive `sandbox`: it has an origin of its own that no other page
has, no cookies, no network, and no scripts unless its reader asks for them. The frame that shows it
can lead nowhere else. Never more than a bounded part of a file is read.

PDF is shown by the reader of the browser, which refuses a frame element with `sandbox`: the answer
alone has the directive. PDF is known by its first bytes, and sent with that type: a browser makes
neither a page nor a script of it, and its own scripts run in that reader, which has no page, no
cookies and no storage. It is sent to a frame of a page of ours, and to nothing else: a link cannot
show it in a window with this address.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.core.errors import Invalid, LadingError, NotFound, TooLarge
from lading.web import browser_rules
from lading.web.visit import Visit

_TEXT: Final = 256 << 10
"""Bytes of a text or a table that are read."""
_WHOLE: Final = 16 << 20
"""Bytes of a picture or a page of HTML, which are shown as a whole."""
_ROWS, _COLUMNS, _CELL = 200, 50, 300
_HEAD: Final = 8 << 10
"""Bytes that tell whether a file is text."""
_SEPARATORS: Final = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_FRAMED: Final = {
    ".html": "text/html; charset=utf-8",
    ".htm": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_PDF: Final = "application/pdf"
_PDF_HEAD: Final = b"%PDF-"
_PICTURE_NAMES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_EMBEDDED: Final = ("iframe", "object", "embed")
"""Destinations of requests (Fetch metadata) that are a part of a page."""
_NOTHING: Final = 416
"""The status for a range of an empty file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedFile:
    """Preview of a file on the page. `kind` is text, table, picture, frame, document or
    none.
    """

    name: str
    path: str
    kind: str
    size: int
    is_cut: bool = False
    content: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    as_text: bool = False
    """A table that is shown as text."""
    with_scripts: bool = False
    raw: str = ""
    """The address of the bytes, for pictures and frames."""
    tree_address: str = ""
    """The address of the directory tree."""
    folder: str = ""

    @property
    def here(self) -> str:
        """The address of this preview."""
        return f"{self.tree_address}/show?{urlencode({'path': self.path})}"

    @property
    def download(self) -> str:
        """The address that saves the file."""
        return f"{self.tree_address}/download?{urlencode({'path': self.path})}"


async def preview(visit: Visit, source: str, page_address: str) -> PreviewedFile:
    """Preview of the file `path` of the address; the server has it at `source`, the page its tree
    at `page_address`. Raises NotFound.
    """
    path = visit.query("path").strip("/")
    if not path:
        raise NotFound("There is no such file")
    data, size = await _read(visit, source, _TEXT)
    name = path.rpartition("/")[2]
    suffix = _suffix(name)
    common: dict[str, Any] = {
        "name": name,
        "path": path,
        "size": size,
        "tree_address": page_address,
        "folder": path.rpartition("/")[0],
    }
    scripts = _wants_scripts(visit)
    query = urlencode({"path": path, **({"scripts": "1"} if scripts else {})})
    if suffix in _FRAMED or picture_type(data) or is_document(data):
        kind = "frame" if suffix in _FRAMED else "document" if is_document(data) else "picture"
        raw = f"{page_address}/raw?{query}" if size <= _WHOLE else ""
        return PreviewedFile(**common, kind=kind, raw=raw, with_scripts=scripts)
    if not is_text(data):
        return PreviewedFile(**common, kind="none")
    is_cut = size > len(data)
    as_text = visit.query("as") == "text"
    if suffix in _SEPARATORS and not as_text:
        rows, is_less = read_table(data, _SEPARATORS[suffix], is_cut=is_cut)
        return PreviewedFile(**common, kind="table", rows=rows, is_cut=is_less)
    content = data.decode(errors="replace")
    is_table = suffix in _SEPARATORS
    return PreviewedFile(**common, kind="text", content=content, is_cut=is_cut, as_text=is_table)


async def send_raw(visit: Visit, source: str) -> Response:
    """The bytes of a picture, or of a page for a frame. Raises Invalid, NotFound, TooLarge."""
    name = visit.query("path").rpartition("/")[2]
    data, size = await _read(visit, source, _WHOLE)
    if size > _WHOLE:
        raise TooLarge(f"{name[:80]!r} has more than {_WHOLE} bytes; download it instead")
    kind = _FRAMED.get(_suffix(name)) or picture_type(data)
    policy = browser_rules.DOWNLOAD
    if not kind and is_document(data):
        if not _is_embedded(visit):
            raise Invalid(f"{name[:80]!r} is shown in its preview alone; download it instead")
        kind, policy = _PDF, browser_rules.DOCUMENT
    if not kind:
        raise Invalid(f"{name[:80]!r} is no picture, no PDF and no HTML; download it instead")
    if _suffix(name) in _FRAMED:
        # Outside of its frame, whose page limits where it can lead, it would have the whole window
        # with the address of this host, as a false login would want it.
        is_framed = visit.incoming.headers.get("sec-fetch-dest", "iframe") == "iframe"
        policy = browser_rules.frame_policy(scripts=is_framed and _wants_scripts(visit))
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    return Response(data, media_type=kind, headers=headers)


def _wants_scripts(visit: Visit) -> bool:
    """Whether the reader wants the scripts of a file to run; a link of another site does not say
    so.
    """
    return visit.query("scripts") == "1" and visit.is_asked_here


def _is_embedded(visit: Visit) -> bool:
    """Whether a page of ours shows the answer in a frame; browsers that do not say so, do not."""
    headers = visit.incoming.headers
    return (
        headers.get("sec-fetch-site") == "same-origin"
        and headers.get("sec-fetch-dest") in _EMBEDDED
    )


def show_page(visit: Visit, template: str, file: PreviewedFile, **values: Any) -> Response:
    """The page with a preview, which may hold a frame."""
    response = visit.page(template, file=file, **values)
    response.headers["Content-Security-Policy"] = browser_rules.FRAMING
    return response


def picture_type(data: bytes) -> str:
    """The media type of a picture, by its first bytes; "" for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for head, kind in _PICTURES if data.startswith(head)), "")


def is_document(data: bytes) -> bool:
    """Whether a file is PDF, by its first bytes."""
    return data.startswith(_PDF_HEAD)


def is_picture_name(path: str) -> bool:
    """Whether a file is called as a picture; its bytes may say otherwise."""
    return _suffix(path) in _PICTURE_NAMES


def is_looked_at(path: str) -> bool:
    """Whether a file is called as one that people look at: a picture, a document or a page."""
    return is_picture_name(path) or _suffix(path) in (".pdf", *_FRAMED)


def is_text(data: bytes) -> bool:
    """Whether the beginning of a file is text."""
    head = data[:_HEAD]
    if b"\0" in head:
        return False
    # A character may be cut at the end.
    shown = head.decode(errors="replace")[:-4]
    return shown.count("\ufffd") <= len(shown) // 50


def read_table(
    data: bytes, separator: str, *, is_cut: bool
) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """The first rows of a table, and whether there is more of it."""
    if is_cut:
        # The last line may be half.
        data = data[: data.rfind(b"\n") + 1]
    rows: list[tuple[str, ...]] = []
    lines = io.StringIO(data.decode(errors="replace"), newline="")
    try:
        for row in csv.reader(lines, delimiter=separator):
            if len(rows) > _ROWS:
                return tuple(rows[:_ROWS]), True
            is_cut |= len(row) > _COLUMNS
            rows.append(tuple(cell[:_CELL] for cell in row[:_COLUMNS]))
    except csv.Error:
        # A cell that is longer than the parser takes, for example of one with an open quote.
        is_cut = True
    width = max(map(len, rows), default=0)
    return tuple(row + ("",) * (width - len(row)) for row in rows), is_cut


def _suffix(name: str) -> str:
    stem, dot, suffix = name.lower().rpartition(".")
    return f".{suffix}" if dot and stem else ""


async def _read(visit: Visit, source: str, most: int) -> tuple[bytes, int]:
    """The first bytes of a file, at most `most`, and its size. Raises NotFound."""
    try:
        async with visit.api.stream(source, headers={"Range": f"bytes=0-{most - 1}"}) as answer:
            total = answer.headers.get("content-range", "").rpartition("/")[2]
            length = answer.headers.get("content-length", "")
            data = bytearray()
            async for piece in answer.chunks:
                data += piece[: most - len(data)]
                if len(data) >= most:
                    break
    except LadingError as error:
        if error.status != _NOTHING:
            raise
        return b"", 0
    known = total if total.isdigit() else length
    return bytes(data), int(known) if known.isdigit() else len(data)

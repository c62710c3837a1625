"""Requests to the daemon of an HPC container: heads, forms with files, ranges.

The daemon is made of the standard library alone and must stay small beside the code, so its HTTP is
written by hand, as strict as `http_head` and stricter: a head that could be read in two ways is
refused. Forms are described by offsets, so that files of any size can be forms on disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lading.core.errors import Invalid, Malformed
from lading.core.protocols import http_head

# Bytes of a head.
MOST_HEAD = 16 << 10
MOST_PARTS = 10_000
"""Parts of one form."""
# A request line of RFC 9112, section 3; a longer target is refused before it is parsed.
_LINE = re.compile(r"[A-Z]{1,20} [!-~]{1,4000} HTTP/1\.[01]")
# A parameter of RFC 9110, section 5.6.6: its value is a token or quoted.
_PARAMETER = re.compile(r';\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*))')
# A parameter of a part of a form. Browsers escape neither backslash nor, if it is the last
# character, the quote behind it (WHATWG HTML, multipart/form-data): so \x stays, and a value goes
# to the last quote where none closes it otherwise.
_FORM_PARAMETER = re.compile(
    r"[;\s]*;\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*=\s*"
    r'(?:"((?:[^"\\]|\\.)*)"|"([^"]*)"|([^;\s"]*))[ \t]*(?=;|$)'
)
# A file name with its charset (RFC 8187); a language may stand between the quotes.
_EXTENDED = re.compile(r"(utf-8|iso-8859-1)'[^']*'(.*)", re.IGNORECASE)
# The end of a line that goes on in the next one (RFC 5322, section 2.2.3).
_FOLD = re.compile(rb"\r\n[ \t]+")
# The preference `wait` (RFC 7240, 4.3).
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*([0-9]{1,6})(?![0-9])", re.IGNORECASE)
# Seconds; clients repeat the call.
MOST_WAIT = 60.0
# Headers whose repetition would be ambiguous.
_ONCE = ("content-length", "transfer-encoding", "authorization", "content-type", "host")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The first lines of a request. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    keep_alive: bool

    @property
    def length(self) -> int | None:
        """Bytes of the body; None: chunked."""
        if "transfer-encoding" in self.headers:
            return None
        return int(self.headers.get("content-length", "0"))


def parse_head(data: bytes) -> RequestHead:
    """The request line and headers, without the empty line that ends them. Raises Malformed."""
    head = http_head.parse_request(data)
    if not _LINE.fullmatch(head.start):
        raise Malformed("the request line is not METHOD PATH HTTP/1.1")
    headers: dict[str, str] = {}
    for field, value in head.fields:
        name = field.lower()
        if name in headers and name in _ONCE:
            raise Malformed(f"the header {name} stands there twice")
        headers[name] = value
    if headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise Malformed("the only transfer coding taken is chunked")
    closing = headers.get("connection", "").lower() == "close" or head.start.endswith("0")
    return RequestHead(head.method, head.target.partition("?")[0], headers, not closing)


def media_type(header: str) -> tuple[str, dict[str, str]]:
    """The media type in lower case and its parameters."""
    kind, _, _ = header.partition(";")
    parameters = {
        parameter[1].lower(): _unescape(parameter[2]) if parameter[2] is not None else parameter[3]
        for parameter in _PARAMETER.finditer(header)
    }
    return kind.strip().lower(), parameters


def waiting_time(prefer: str) -> float:
    """Seconds of a `Prefer: wait=N` header (RFC 7240), at most `MOST_WAIT`; 0 without one."""
    found = _WAIT.search(prefer)
    return min(float(found[1]), MOST_WAIT) if found else 0.0


def _unescape(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)


class Searchable(Protocol):
    """Bytes, in memory or in a file."""

    def find(self, sub: bytes, start: int = ..., /) -> int:
        """Position of the next `sub`, or -1."""

    def __getitem__(self, index: slice, /) -> bytes:
        """Some of the bytes."""

    def __len__(self) -> int:
        """Number of bytes."""


@dataclass(frozen=True, slots=True)
class FormPart:
    """A part of a form: its name, its file name if any, and the position of its content."""

    name: str
    filename: str | None
    start: int
    end: int


def form_parts(body: Searchable, boundary: str) -> list[FormPart]:
    """The parts of `multipart/form-data` (RFC 7578). Raises Invalid."""
    if not re.fullmatch(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]", boundary):
        raise Invalid("the form has no valid boundary")
    mark = b"--" + boundary.encode("ascii")
    at = _after_first(body, mark)
    parts: list[FormPart] = []
    while len(parts) <= MOST_PARTS and body[at : at + 2] != b"--":
        if body[at : at + 2] != b"\r\n":
            raise Invalid("the form has a boundary that is not a line of its own")
        headed = body.find(b"\r\n\r\n", at)
        end = body.find(b"\r\n" + mark, headed + 4)
        if headed < 0 or end < 0 or headed - at > MOST_HEAD:
            raise Invalid("the form has a part that does not end, or is no part")
        parts.append(_part(body[at + 2 : headed], headed + 4, end))
        at = end + 2 + len(mark)
    if len(parts) > MOST_PARTS:
        raise Invalid(f"the form has more than {MOST_PARTS} parts")
    return parts


def _after_first(body: Searchable, mark: bytes) -> int:
    """The position after the first boundary; a text before it is skipped (RFC 2046, 5.1.1)."""
    if body[0 : len(mark)] == mark:
        return len(mark)
    at = body.find(b"\r\n" + mark)
    if at < 0:
        raise Invalid("the form does not have the boundary that its type names")
    return at + 2 + len(mark)


def _part(head: bytes, start: int, end: int) -> FormPart:
    for line in _FOLD.sub(b" ", head).split(b"\r\n"):
        field, _, value = line.partition(b":")
        if field.strip().lower() == b"content-disposition":
            kind, parameters = _disposition(_text_of(value))
            if kind == "form-data" and "name" in parameters:
                filename = parameters.get("filename")
                if extended := _EXTENDED.fullmatch(parameters.get("filename*", "")):
                    filename = _percent_decoded(extended[2], extended[1])
                return FormPart(parameters["name"], filename, start, end)
    raise Invalid("the form has a part without a name")


def _disposition(header: str) -> tuple[str, dict[str, str]]:
    """The type of a part and its parameters. Raises Invalid for one that cannot be read: a file
    would get the name of its field.
    """
    kind, semicolon, remainder = header.partition(";")
    remainder = (semicolon + remainder).rstrip("; \t")
    parameters: dict[str, str] = {}
    at = 0
    while at < len(remainder):
        match = _FORM_PARAMETER.match(remainder, at)
        if match is None:
            raise Invalid(f"the form has a part whose name cannot be read: {header.strip()[:80]!r}")
        escaped, rough, token = match[2], match[3], match[4]
        value = token if escaped is None else re.sub(r'\\(["\\])', r"\1", escaped)
        parameters[match[1].lower()] = value if rough is None else rough
        at = match.end()
    return kind.strip().lower(), parameters


def _text_of(data: bytes) -> str:
    """The text of a header: UTF-8 (RFC 7578, section 5.1), else Latin-1, as older clients send."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _percent_decoded(encoded: str, charset: str) -> str:
    data = re.sub(
        rb"%([0-9A-Fa-f]{2})", lambda match: bytes.fromhex(match[1].decode()), encoded.encode()
    )
    try:
        return data.decode(charset)
    except UnicodeDecodeError:
        raise Invalid(f"the file name {encoded[:60]!r} of the form is not {charset}") from None


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """Start and end of `bytes=A-B`, `bytes=A-` or `bytes=-N` in `size` bytes; None when the range
    is not satisfiable.

    Any other value means the whole content (RFC 9110, section 14.2). A range that begins at the end
    of the data is empty: a log may grow.
    """
    match = re.fullmatch(r"bytes=([0-9]{0,18})-([0-9]{0,18})", header.strip())
    if not match or (not match[1] and not match[2]):
        return 0, size
    if not match[1]:
        return max(0, size - int(match[2])), size
    start = int(match[1])
    end = min(size, int(match[2]) + 1) if match[2] else size
    return (start, end) if start <= end and start <= size else None

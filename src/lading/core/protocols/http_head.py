"""Heads of HTTP/1.1 messages, and forms in their bodies.

Heads of HTTP/1.1 messages for forwarding: parsed, changed, written again (RFC 9112).

Only well-formed heads are accepted: no folded lines, no control characters, a single length. Two
readers of one message must not disagree about its end (request smuggling).

Parameters in a multipart/form-data body (RFC 7578), as scripts in browsers send them.

Only texts are parameters: a part that is a file, or is encoded, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lading.core.errors import Malformed

END = b"\r\n\r\n"
MOST = 64 << 10
"""Maximum bytes of a head."""
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
     "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Fields for the next hop only (RFC 9110, section 7.6.1)."""
# The first line of a request, of a response, and a header (RFC 9112, 3 to 5).
_REQUEST = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([^\x00-\x20\x7f]+) HTTP/1\.[01]")
_STATUS = re.compile(r"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\x00-\x08\x0a-\x1f\x7f]*)?")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")


@dataclass(frozen=True, slots=True)
class HttpHead:
    """A start line and fields in their order; the names are as they were written."""

    start: str
    fields: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str:
        """The first value of a field; "" when there is none."""
        return next((value for one, value in self.fields if one.lower() == name), "")

    def says(self, name: str, token: str) -> bool:
        """Whether a list field contains this element."""
        values = (value for one, value in self.fields if one.lower() == name)
        return any(part.strip().lower() == token for value in values for part in value.split(","))

    @property
    def method(self) -> str:
        """Method of a request."""
        return self.start.partition(" ")[0]

    @property
    def target(self) -> str:
        """Target of a request."""
        return self.start.split(" ")[1]

    @property
    def status(self) -> int:
        """Status code of a response."""
        return int(self.start.split(" ")[1])

    def without(self, names: Iterable[str], *, prefix: str = "") -> HttpHead:
        """The head without these fields (lower case), and without fields whose name begins with
        `prefix`.
        """
        gone = frozenset(names)
        kept = (
            (name, value)
            for name, value in self.fields
            if name.lower() not in gone and not (prefix and name.lower().startswith(prefix))
        )
        return HttpHead(self.start, tuple(kept))

    def having(self, fields: Mapping[str, str]) -> HttpHead:
        """The head with these fields appended."""
        return HttpHead(self.start, (*self.fields, *fields.items()))

    def encode(self) -> bytes:
        """Serialize to wire bytes."""
        lines = (self.start, *(f"{name}: {value}" for name, value in self.fields), "", "")
        # Bytes above 127 pass unchanged (obs-text, RFC 9110, section 5.5).
        return "\r\n".join(lines).encode("latin-1")


def parse_request(data: bytes) -> HttpHead:
    """Parse the head of a request, with the empty line at its end. Raises Malformed."""
    return _parse(data, _REQUEST)


def parse_answer(data: bytes) -> HttpHead:
    """Parse the head of a response, with the empty line at its end. Raises Malformed."""
    return _parse(data, _STATUS)


def _parse(data: bytes, start: re.Pattern[str]) -> HttpHead:
    first, *lines = data.removesuffix(END).decode("latin-1").split("\r\n")
    if not start.fullmatch(first):
        raise Malformed(f"HTTP: {first[:60]!r} is no start line")
    fields = []
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            raise Malformed(f"HTTP: {line[:60]!r} is no header field")
        fields.append((match[1], match[2].strip()))
    head = HttpHead(first, tuple(fields))
    # RFC 9112, section 6.3: a message with both is likely an attack.
    lengths = [value for name, value in fields if name.lower() == "content-length"]
    if len(lengths) > 1 or (lengths and head.get("transfer-encoding")):
        raise Malformed("HTTP: the length of the message is said more than once")
    return head


FORM_MEDIA: Final = "multipart/form-data"
MOST_FIELDS: Final = 1000
"""Parts in one body, as many as parameters in a form."""
_BOUNDARY: Final = re.compile(
    r';\s*boundary=(?:"([^"\\]{1,70})"|([^\s;",]{1,70}))\s*(?:;|$)', re.IGNORECASE
)
_NAME: Final = re.compile(rb'form-data;\s*name="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)


def parse_form(raw: bytes, content_type: str) -> list[tuple[str, str]]:
    """Names and values, in order. Raises Malformed."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise Malformed(f"Content-Type: {FORM_MEDIA} needs a boundary")
    line = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    # Text before the first boundary and after the last is no part (RFC 2046, section 5.1.1).
    parts = (b"\r\n" + raw).split(b"\r\n" + line, MOST_FIELDS + 1)
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise Malformed(
            f"request body: {FORM_MEDIA} ends without its boundary, or has more than {MOST_FIELDS}"
            " parts"
        )
    return [_field(part) for part in parts[1:-1]]


def _field(part: bytes) -> tuple[str, str]:
    # Blanks may follow a boundary (RFC 2046, section 5.1.1).
    head, found, value = part.lstrip(b" \t").partition(b"\r\n\r\n")
    fields = [line.partition(b":") for line in head.split(b"\r\n") if line]
    names = [
        _NAME.fullmatch(one[2].strip())
        for one in fields
        if one[0].strip().lower() == b"content-disposition"
    ]
    if not found or len(names) != 1 or names[0] is None:
        raise Malformed(
            f"request body: a part of {FORM_MEDIA} must be a parameter with a name, not a file"
        )
    try:
        return re.sub(r"\\(.)", r"\1", names[0][1].decode()), value.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"request body: {FORM_MEDIA}: {error}") from None

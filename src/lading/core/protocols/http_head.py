"""Heads of HTTP/1.1 messages for forwarding: parsed, changed, written again (RFC 9112).

Only well-formed heads are accepted: no folded lines, no control characters, a single length. Two
readers of one message must not disagree about its end (request smuggling).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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

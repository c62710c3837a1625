"""HTTP/1.1 texts that are forwarded or come from browsers: heads, forms, and rules across origins.

Heads for forwarding are parsed, changed, written again (RFC 9112). Only well-formed heads are
accepted: no folded lines, no control characters, a single length. Two readers of one message must
not disagree about its end (request smuggling).

Forms are parameters in a multipart/form-data body (RFC 7578), as scripts in browsers send them.
Only texts are parameters: a part that is a file, or is encoded, is refused.

Requests across origins: a browser adds cookies and the password of HTTP Basic to the requests of
any page. So these count only for requests of our own pages and for plain links (Fetch Metadata,
https://www.w3.org/TR/fetch-metadata/). A token in the header Authorization is not added by
browsers: it counts for every origin, as in CORS. Programs send neither header.

A response of a container applies to the container's address only: header fields that would govern
the whole host, a proxy in front or cookies of others are removed. By path containers share the
origin of the API, so fields that govern an origin are removed as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from lading.core.errors import Forbidden, Malformed

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
# A status line of RFC 9112, section 4, without control characters.
_STATUS = re.compile(r"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\x00-\x08\x0a-\x1f\x7f]*)?")
# A field line of RFC 9112, section 5: the name is a token, and no space stands before the colon.
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
# RFC 9110, section 8.6; below a petabyte. `isdigit` accepts more than these digits.
_LENGTH: Final = re.compile("[0-9]{1,15}")
FORM_MEDIA: Final = "multipart/form-data"
MOST_FIELDS: Final = 1000
"""Parts in one body, as many as parameters in a form."""
# The boundary of RFC 2046, section 5.1.1: at most 70 characters.
_BOUNDARY: Final = re.compile(
    r';\s*boundary=(?:"([^"\\]{1,70})"|([^\s;",]{1,70}))\s*(?:;|$)', re.IGNORECASE
)
# The name of a part of a form (RFC 7578, section 4.2).
_NAME: Final = re.compile(rb'form-data;\s*name="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)
PAGE_COOKIE: Final = "__Host-lading"
"""Cookie of the page's sessions. Browsers send it with every request to the host of the API: each
part of the server that passes requests on has to take it out.
"""
_OURS = ("same-origin", "none")
_PORTS = {"https": ":443", "http": ":80"}
_SCHEMES = {"wss": "https", "ws": "http"}
HOST_WIDE = frozenset(
    {
        "alt-svc", "clear-site-data", "expect-ct", "nel", "public-key-pins",
        "public-key-pins-report-only", "report-to", "secure-session-challenge",
        "secure-session-registration", "sec-session-challenge", "sec-session-registration",
        "set-cookie2", "set-login", "strict-transport-security", "x-lighttpd-send-file",
        "x-reproxy-url", "x-sendfile",
    }
)  # fmt: skip
"""Fields of a container's response that would apply to other hosts, other ports or a proxy in
front.
"""
ORIGIN_WIDE = frozenset(
    {
        "accept-ch", "access-control-allow-credentials", "authentication-info", "critical-ch",
        "origin-agent-cluster", "reporting-endpoints", "service-worker-allowed", "set-cookie",
        "shared-storage-write", "speculation-rules", "use-as-dictionary", "www-authenticate",
    }
)  # fmt: skip
"""Fields that would apply to a whole origin."""
_HOST_WIDE_BEGIN = ("x-accel-", "x-arvados-")
_ORIGIN_WIDE_BEGIN = ("attribution-reporting-",)


class HttpHead(NamedTuple):
    """A start line and fields in their order; the names are as they were written."""

    start: str
    fields: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str:
        """The first value of a field; "" when there is none."""
        return next((value for field_name, value in self.fields if field_name.lower() == name), "")

    def says(self, name: str, token: str) -> bool:
        """Whether a list field contains this element."""
        values = (value for field_name, value in self.fields if field_name.lower() == name)
        return any(
            element.strip().lower() == token for value in values for element in value.split(",")
        )

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
    is_coded = any(name.lower() == "transfer-encoding" for name, _ in fields)
    if len(lengths) > 1 or (lengths and is_coded):
        raise Malformed("HTTP: the message has more than one length")
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise Malformed(f"HTTP: {lengths[0][:60]!r} is no length")
    return head


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
    return [_field(body_part) for body_part in parts[1:-1]]


def _field(body_part: bytes) -> tuple[str, str]:
    # Blanks may follow a boundary (RFC 2046, section 5.1.1).
    head, separator, value = body_part.lstrip(b" \t").partition(b"\r\n\r\n")
    fields = [line.partition(b":") for line in head.split(b"\r\n") if line]
    names = [
        _NAME.fullmatch(field[2].strip())
        for field in fields
        if field[0].strip().lower() == b"content-disposition"
    ]
    if not separator or len(names) != 1 or names[0] is None:
        raise Malformed(
            f"request body: a part of {FORM_MEDIA} must be a parameter with a name, not a file"
        )
    try:
        return re.sub(r"\\(.)", r"\1", names[0][1].decode()), value.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"request body: {FORM_MEDIA}: {error}") from None


def read_cookies(header: str) -> list[tuple[str, str]]:
    """Names and values of a Cookie header in their order, without quotes (RFC 6265, section 5.4).

    Only a semicolon ends a cookie. Another host of the domain can set a cookie whose value has a
    space and then looks like a second cookie, with a name that this host could not set.
    """
    pairs = (cookie.strip(" ").partition("=") for cookie in header.split(";"))
    return [
        (name, value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value)
        for name, sign, value in pairs
        if sign
    ]


def is_explicit(headers: Mapping[str, str]) -> bool:
    """Whether a request has a token, which browsers do not add by themselves."""
    return _scheme_of(headers) in ("bearer", "oauth2")


def is_foreign(method: str, headers: Mapping[str, str], *, scheme: str) -> bool:
    """Whether a page of another origin caused this request, other than by a plain link.

    `scheme` is that of the connection: https or wss, or http or ws on the local socket.
    """
    site = headers.get("sec-fetch-site", "").strip().lower()
    if site:
        if site in _OURS:
            return False
    # Older browsers send Origin but no Fetch Metadata.
    else:
        origin = headers.get("origin", "").strip().lower()
        if not origin or origin in _own(headers, scheme):
            return False
    is_link = (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
    return not (is_link and method in ("GET", "HEAD"))


def check_call(method: str, headers: Mapping[str, str], *, scheme: str) -> None:
    """Refuse a call from a page of another origin with its reader's password, or by a form. Raises
    Forbidden.
    """
    if is_explicit(headers) or not is_foreign(method, headers, scheme=scheme):
        return
    if _scheme_of(headers) == "basic":
        raise Forbidden(
            "Forbidden: a page of another site sent this request "
            "with a password that the browser keeps; send 'Authorization: Bearer TOKEN'"
        )
    # A form cannot send JSON; with other types no CORS preflight asks first.
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method == "POST" and media != "application/json":
        raise Forbidden(
            "Forbidden: a form of another site sent this request; "
            "send 'Authorization: Bearer TOKEN', or JSON"
        )


def passed_on(answer: HttpHead, *, by_path: bool, reserved: tuple[str, ...]) -> HttpHead:
    """The response of a container for a browser; `reserved` are prefixes of the server's own
    cookies.

    `by_path`: it shares the origin of the API. Cookies are for the host that sets them, never for a
    whole domain.
    """
    begin = _HOST_WIDE_BEGIN + (_ORIGIN_WIDE_BEGIN if by_path else ())
    fields = []
    for name, value in answer.fields:
        lower = name.lower()
        if lower in HOST_WIDE or lower.startswith(begin) or (by_path and lower in ORIGIN_WIDE):
            continue
        if lower == "set-cookie":
            cookie = _own_cookie(value, reserved)
            if cookie:
                fields.append((name, cookie))
            continue
        fields.append((name, value))
    return HttpHead(answer.start, tuple(fields))


def _own_cookie(value: str, reserved: tuple[str, ...]) -> str:
    """A Set-Cookie without its domain; "" for a reserved or missing name: without a name, browsers
    would take the value for one.
    """
    pair, *attributes = value.split(";")
    name, equals, _ = pair.partition("=")
    if not equals or not name.strip() or name.strip().startswith(reserved):
        return ""
    remaining = [
        attribute
        for attribute in attributes
        if attribute.partition("=")[0].strip().lower() != "domain"
    ]
    return ";".join((pair, *remaining))


def _scheme_of(headers: Mapping[str, str]) -> str:
    return headers.get("authorization", "").strip().partition(" ")[0].lower()


def _own(headers: Mapping[str, str], scheme: str) -> tuple[str, ...]:
    """The origin of a request's target, as a browser writes it: with and without the default
    port.
    """
    scheme = _SCHEMES.get(scheme, scheme)
    host = headers.get("host", "").strip().lower()
    return f"{scheme}://{host}", f"{scheme}://{host.removesuffix(_PORTS.get(scheme, ''))}"

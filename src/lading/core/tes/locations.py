"""URLs of inputs and outputs: which there are, their parts, and how messages show them.

| scheme | names | as an output |
|---|---|---|
| `keep:` | a file or directory of a collection | files stay in the output collection |
| `http`, `https` | one file | PUT |
| `s3` | an object, or all below a prefix | yes |
| `ftp` | one file | yes |
| `file`, or an absolute path | a file or directory below a root | below a writable root |
| `drs` | an object of a DRS server, which names the file | no |

The rest of an `s3` URL after the bucket is the key as it stands: keys have `?`, `#` and `%`. A
query may be a signature, and the part before `@` a password: no message shows them (`shown`). Roots
are directories of the server's machine (`file_roots`).

Source: docs/spec/transfers, section URLs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from lading.core.errors import Malformed
from lading.core.values import printable

# Scheme, authority, and the rest of a URL (RFC 3986, appendix B).
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
# User, password, host and port (RFC 3986, section 3.2); hosts with other characters are refused.
_AUTHORITY = re.compile(
    r"(?:(?P<user>[^@:]*)(?::(?P<password>[^@]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# A percent-encoded byte (RFC 3986, section 2.1).
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# Characters that a path of a URL may hold unescaped (RFC 3986, 3.3), and `%`, which may begin an
# escape.
_OF_PATHS = _UNRESERVED | frozenset(b"/!$&'()*+,;=:@%")
MAX_URL = 8192
"""Characters of a URL."""


class LocationScheme(StrEnum):
    """The schemes of URLs that tasks may name."""

    KEEP = "keep"
    HTTP = "http"
    HTTPS = "https"
    S3 = "s3"
    FTP = "ftp"
    FILE = "file"
    DRS = "drs"


PORTS: Mapping[LocationScheme, int] = MappingProxyType(
    {LocationScheme.HTTP: 80, LocationScheme.HTTPS: 443, LocationScheme.FTP: 21,
     LocationScheme.DRS: 443}
)  # fmt: skip
"""The default ports of schemes with a host."""
DIRECTORIES = frozenset({LocationScheme.KEEP, LocationScheme.S3, LocationScheme.FILE})
"""Schemes whose URLs can name a directory."""
WRITABLE = frozenset(LocationScheme) - {LocationScheme.DRS}
"""Schemes of outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A parsed URL. `host` is that of the server, or the bucket of an `s3` URL. `path` is as a
    request names it for http, else plain text: it begins with a slash for `file`, and with none for
    `s3` (the key) and `drs` (the id).
    """

    scheme: LocationScheme
    host: str = ""
    port: int = 0
    path: str = ""
    query: str = ""
    user: str = ""
    password: str = ""

    @property
    def name(self) -> str:
        """The last element of the path, "" for none."""
        is_encoded = self.scheme in (LocationScheme.HTTP, LocationScheme.HTTPS)
        path = decode(self.path) if is_encoded else self.path
        return path.rstrip("/").rpartition("/")[2]


def parse_location(url: str) -> Location:
    """The parts of a URL. Raises Malformed, with a text that does not show the URL."""
    if len(url) > MAX_URL:
        raise Malformed(f"has more than {MAX_URL} characters")
    if any(character < " " or character == "\x7f" for character in url):
        raise Malformed("has a control character")
    if url.startswith("/"):
        return Location(scheme=LocationScheme.FILE, path=_file_path(url))
    if url.startswith("keep:"):
        return Location(scheme=LocationScheme.KEEP, path=url.removeprefix("keep:"))
    match = _URL.fullmatch(url)
    if match is None:
        raise Malformed("is no URL and no absolute path")
    name, authority, remainder = match.groups()
    try:
        scheme = LocationScheme(name.lower())
    except ValueError:
        known = ", ".join(LocationScheme)
        raise Malformed(f"{name[:20]!r} is none of the schemes {known}") from None
    match scheme:
        case LocationScheme.FILE:
            if authority not in ("", "localhost"):
                raise Malformed("a file URL has no host: write file:///PATH")
            return Location(scheme=scheme, path=_file_path(decode(remainder)))
        case LocationScheme.S3:
            return _bucket_location(authority, remainder)
    return _host_location(scheme, authority, remainder)


def _file_path(path: str) -> str:
    elements = path.rstrip("/").split("/")[1:]
    if not elements or any(element in ("", ".", "..") for element in elements) or "\0" in path:
        raise Malformed("the path must be absolute, without '.', '..' or empty elements")
    return path


def _bucket_location(bucket: str, remainder: str) -> Location:
    if not _BUCKET.fullmatch(bucket):
        raise Malformed("an s3 URL is s3://BUCKET/KEY")
    return Location(scheme=LocationScheme.S3, host=bucket, path=remainder.removeprefix("/"))


def _host_location(scheme: LocationScheme, authority: str, remainder: str) -> Location:
    match = _AUTHORITY.fullmatch(authority)
    port = int(match["port"] or PORTS.get(scheme, 0)) if match else 0
    if match is None or not 0 < port < 1 << 16:
        raise Malformed(f"has no valid host: write {scheme}://HOST[:PORT]/PATH")
    path, _, query = remainder.partition("#")[0].partition("?")
    if scheme in (LocationScheme.FTP, LocationScheme.DRS):
        path, query = _plain_path(path, is_id=scheme is LocationScheme.DRS), ""
    else:
        path, query = encode(path or "/", _OF_PATHS), encode(query, _OF_PATHS | frozenset(b"?"))
    return Location(
        scheme=scheme,
        host=match["host"].strip("[]").lower(),
        port=port,
        path=path,
        query=f"?{query}" if query else "",
        user=decode(match["user"] or ""),
        password=decode(match["password"] or ""),
    )


def host_header(location: Location) -> str:
    """The header Host of a location."""
    host = f"[{location.host}]" if ":" in location.host else location.host
    return host if location.port == PORTS[location.scheme] else f"{host}:{location.port}"


def _plain_path(path: str, *, is_id: bool) -> str:
    found = decode(path.removeprefix("/") if is_id else path)
    if not found.strip("/"):
        raise Malformed("names no file")
    if any(character < " " for character in found):
        raise Malformed("has a control character")
    return found


def encode(value: str, safe: frozenset[int] = _UNRESERVED) -> str:
    """Percent-encode (RFC 3986) the bytes of a text in UTF-8 that are not `safe`."""
    data = value.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in data)


def decode(encoded: str) -> str:
    """A percent-encoded text; bytes that are no UTF-8 are kept as surrogates."""
    data = re.sub(
        _ESCAPE.pattern.encode(),
        lambda match: bytes([int(match[1], 16)]),
        encoded.encode("utf-8", "surrogateescape"),
    )
    return data.decode("utf-8", "surrogateescape")


def join_url(url: str, path: str) -> str:
    """The URL of a file `path` below a directory's URL, with one slash between the two."""
    try:
        location = parse_location(url)
    except Malformed:
        return f"{url.rstrip('/')}/{path}"
    plain = url.startswith("/") or location.scheme in (LocationScheme.S3, LocationScheme.KEEP)
    return f"{url.rstrip('/')}/{path if plain else encode(path, _UNRESERVED | {47})}"


def shown(url: str) -> str:
    """A URL for messages: without user, password, query and fragment, at most 300 characters."""
    try:
        location = parse_location(url)
    except Malformed:
        return printable(url.partition(":")[0])[:20] + ": URL"
    match location.scheme:
        case LocationScheme.FILE:
            shown_url = f"file://{location.path}"
        case LocationScheme.KEEP:
            shown_url = f"keep:{location.path}"
        case LocationScheme.S3:
            shown_url = f"s3://{location.host}/{location.path}"
        case _:
            port = "" if location.port == PORTS[location.scheme] else f":{location.port}"
            host = f"[{location.host}]" if ":" in location.host else location.host
            shown_url = (
                f"{location.scheme}://{host}{port}/{decode(location.path).removeprefix('/')}"
            )
    return (shown_url if shown_url.isprintable() else repr(shown_url)[1:-1])[:300]

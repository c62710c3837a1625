"""Requests for files: parsing of their addresses, and the services that all requests share.

No other module checks paths of requests.

    /c=ID/path                  ID is a uuid, or a portable data hash, which may be written with
                                `-` for `+`
    /c=ID/t=TOKEN/path          read with TOKEN; with an empty one, as the anonymous user
    /c=ID/_/path                for a file whose name begins with `t=` or is `_`
    /by_id/ID/path              the same, and so is /collections/ID/path

An element may be percent-encoded, but must not contain an encoded `/`. A path that ends in `/` is
that of a directory. Source: docs/spec/api, section Files over HTTP.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

from lading.core import ids
from lading.core.data import manifest
from lading.core.errors import Malformed, NotFound
from lading.fileserving.services import FileServices
from lading.webdav.locks import Locks

PREFIXES: Final = ("/c=", "/by_id/", "/collections/")
# Directories above collections (`projects`).
_ABOVE: Final = ("/users/", "/by_id", "/users")
# Hints after the size are ignored.
_HASH: Final = re.compile(r"([0-9a-f]{32})[-+]([0-9]+)(?:[-+].*)?")
# Characters of a path; a manifest could name longer ones, but no client sends them.
_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAddress:
    """`collection` is a uuid or portable data hash; `path` is inside it, "" for its root.

    `folder`: the address ends in `/`. `root` is the encoded address of the collection without `/`.
    `token` is the token in the address: None for an address without one, "" for the anonymous user.
    """

    collection: str
    path: str
    folder: bool
    root: str
    token: str | None = None

    @property
    def editable(self) -> bool:
        """Whether the address names a collection by uuid, which can change, not a content by
        hash.
        """
        return ids.is_uuid(self.collection)

    def url(self, path: str, *, folder: bool = False) -> str:
        """The encoded address of another path of the collection."""
        below = f"{self.root}/{quote(path, safe='/')}"
        return below if not folder or below.endswith("/") else f"{below}/"


def is_file_path(path: str) -> bool:
    """Whether this application serves a path."""
    return path.startswith((*PREFIXES, _ABOVE[0])) or path in _ABOVE[1:]


def is_file_call(scope: Mapping[str, Any]) -> bool:
    """Whether a request is for this application. Of the root, which has the page and the block
    store too, those are that only WebDAV makes: PROPFIND, and OPTIONS that no page of another
    origin asks with.
    """
    path, method = scope["path"], scope["method"]
    if path != "/":
        return is_file_path(path)
    return method == "PROPFIND" or (
        method == "OPTIONS"
        and not any(name == b"access-control-request-method" for name, _ in scope["headers"])
    )


def parse_address(raw: str) -> FileAddress:
    """Parse a raw, percent-encoded path.

    Raises Malformed for a path that no file can have, NotFound when it names no collection.
    """
    if len(raw) > _MAX:
        raise Malformed(f"the path has {len(raw)} characters; at most {_MAX} are taken")
    name, parts = _split(raw)
    collection = _collection(_decode(name))
    segments = raw.split("/")[1:]
    # The address up to the collection, unchanged: links of pages are built from it.
    root = segments[: len(segments) - len(parts)]
    token: str | None = None
    if parts and parts[0].startswith("t="):
        token, taken = _token(parts)
        root, parts = [*root, *parts[:taken]], parts[taken:]
    # After `_` even `t=...` and `_` are names of files.
    if parts and parts[0] == "_":
        root, parts = [*root, "_"], parts[1:]
    folder = not parts or parts[-1] == ""
    elements = [_decode(segment) for segment in parts if segment]
    path = "/".join(elements)
    fault = manifest.fault_of(path) if path else ""
    if fault or any("/" in element for element in elements):
        raise Malformed(
            f"{path[:80]!r}: no path of a file: {fault or 'a name cannot contain a slash'}"
        )
    return FileAddress(
        collection=collection, path=path, folder=folder, root="/" + "/".join(root), token=token
    )


def parse_destination(header: str, *, host: str) -> FileAddress:
    """The address in a Destination header: a path, or a URL of this `host`. Raises Malformed."""
    try:
        url = urlsplit(header.strip())
    except ValueError:
        url = urlsplit("")
    if not url.path or (url.netloc and url.netloc.lower() != host.lower()):
        # A client may send a full URL; another host would be a copy to another server.
        raise Malformed("Destination: must be an address of this server")
    try:
        return parse_address(url.path)
    except NotFound as error:
        raise Malformed(f"Destination: {error.message}") from None


def _split(raw: str) -> tuple[str, list[str]]:
    """The encoded name of the collection, and the rest of the path."""
    parts = raw.split("/")[1:]
    # Some clients (davfs2) encode more than they have to.
    name = parts[0].replace("%3D", "=", 1).replace("%3d", "=", 1) if parts else ""
    if name.startswith("c="):
        return name[2:], parts[1:]
    if len(parts) > 1 and f"/{parts[0]}/" in PREFIXES:
        return parts[1], parts[2:]
    raise NotFound("Path not found: expected /c=<uuid or hash>/<path>")


def _collection(name: str) -> str:
    if ids.is_uuid(name) and ids.infix_of(name) == ids.Infix.COLLECTION:
        return name
    match = _HASH.fullmatch(name)
    if match is None:
        raise NotFound(
            f"Path not found: {name[:60]!r} is neither the uuid"
            " nor the content hash of a collection"
        )
    return f"{match[1]}+{match[2]}"


def _token(parts: list[str]) -> tuple[str, int]:
    """The token and its number of path elements: three for an unencoded `v2/uuid/secret`."""
    # Slashes of a token need not be encoded.
    if parts[0] == "t=v2" and len(parts) >= 3:
        return f"v2/{parts[1]}/{parts[2]}", 3
    return _decode(parts[0][2:]), 1


def _decode(segment: str) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise Malformed("the path is not UTF-8") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class DavServices:
    """Services shared by all requests."""

    files: FileServices
    locks: Locks


@dataclass(frozen=True, slots=True, kw_only=True)
class DavRequest:
    """A parsed request; `token` is never empty. Header names are in lower case."""

    method: str
    address: FileAddress
    token: str
    headers: Mapping[str, str]
    query: str
    body: AsyncIterable[bytes]

    @property
    def holder(self) -> str:
        """Holder of locks taken by this request: a digest of the token."""
        return hashlib.sha256(self.token.encode()).hexdigest()[:16]

    @property
    def length(self) -> int | None:
        """Content-Length, or None."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() else None

    def parameter(self, name: str) -> str:
        """A parameter of the query, "" if missing."""
        return dict(parse_qsl(self.query, keep_blank_values=True)).get(name, "")

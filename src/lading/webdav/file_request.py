"""A parsed request for a file, and the services that all requests share."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from lading.webdav.addresses import FileAddress
from lading.webdav.collection_cache import CollectionCache
from lading.webdav.file_reader import FileReader
from lading.webdav.locks import Locks
from lading.webdav.uploads import DavUpload


@dataclass(frozen=True, slots=True, kw_only=True)
class DavServices:
    """Services shared by all requests."""

    library: CollectionCache
    reader: FileReader
    intake: DavUpload
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

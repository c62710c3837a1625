"""One request for a file as it was read, and the parts that serve all requests."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from lading.gateway.addresses import Address
from lading.gateway.locks import Locks
from lading.gateway.reading import Reader
from lading.gateway.shelves import Library
from lading.gateway.uploads import Intake


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What serves all requests."""

    library: Library
    reader: Reader
    intake: Intake
    locks: Locks


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request; `token` is the one to act with, never empty. Header names are in lower case."""

    method: str
    address: Address
    token: str
    headers: Mapping[str, str]
    query: str
    body: AsyncIterable[bytes]

    @property
    def holder(self) -> str:
        """Who holds the locks that this request takes: a name of the token."""
        return hashlib.sha256(self.token.encode()).hexdigest()[:16]

    @property
    def length(self) -> int | None:
        """Bytes of the body, if that was said."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() else None

    def parameter(self, name: str) -> str:
        """A parameter of the query, "" if it is not there."""
        return dict(parse_qsl(self.query, keep_blank_values=True)).get(name, "")

"""Requests of S3, and the services that all requests share."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lading.client.api import ApiClient
from lading.core.s3.bucket_names import ObjectAddress
from lading.core.s3.refusals import S3Refusal
from lading.fileserving.changes import ConcurrentChanges
from lading.fileserving.services import FileServices

XML: Final = "application/xml"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Services:
    """Services shared by all requests; `clock` answers the time in UTC."""

    files: FileServices
    changes: ConcurrentChanges
    clock: Callable[[], datetime]
    upload_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Request:
    """A request whose signature was verified. Names of headers are in lower case.

    `body` is decoded, and raises at its end unless its checksums match. `is_signed`: not of the
    anonymous user.
    """

    method: str
    address: ObjectAddress
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    token: str
    body: AsyncIterable[bytes]
    length: int | None
    is_signed: bool

    @property
    def holder(self) -> str:
        """A digest of the token, which shares uploads among tokens."""
        return hashlib.sha256(self.token.encode()).hexdigest()[:16]

    def api(self, services: S3Services) -> ApiClient:
        """A client of the API with the token of the request."""
        return services.files.collections.api(self.token)


async def read_document(request: S3Request, most: int) -> bytes:
    """The whole body of a request, of at most `most` bytes. Raises S3Refusal."""
    body = bytearray()
    async for piece in request.body:
        body += piece
        if len(body) > most:
            raise S3Refusal("EntityTooLarge", f"the document has more than {most} bytes")
    return bytes(body)


def quoted(tag: str) -> str:
    """An entity tag in quotation marks."""
    return f'"{tag}"'


def iso_time(moment: datetime) -> str:
    """A time in documents."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def select_parameters(query: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The parameters of a query, without those of its signature; of several with one name the
    first.
    """
    selected: dict[str, str] = {}
    for name, value in query:
        if not name.startswith("X-Amz-"):
            selected.setdefault(name, value)
    return selected

"""Files of an HTTP server: inputs by GET, in parts by Range (RFC 9110, 14), outputs by PUT."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from lading.core.tes.locations import Location, shown
from lading.core.tes.transfers import ObjectFacts, facts_of, range_start
from lading.tes.transfers.endpoints import BodySender, OpenObject, OutgoingFile
from lading.tes.transfers.outside_http import (
    OutsideAnswer,
    OutsideHttp,
    PassingFault,
    check_status,
)


class HttpSource:
    """Implements ObjectSource. `headers`: the headers that the server asks for."""

    def __init__(
        self,
        http: OutsideHttp,
        location: Location,
        url: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._http = http
        self._location = location
        self._headers = {**basic_credentials(location), **(headers or {})}
        self.name = shown(url)

    @asynccontextmanager
    async def open(self, start: int, previous: ObjectFacts | None) -> AsyncGenerator[OpenObject]:
        """Receive the file; see ObjectSource."""
        headers = {**self._headers, **range_headers(start, previous)}
        async with self._http.exchange("GET", self._location, headers) as answer:
            yield await opened_object(answer, start, self._location.host)


def range_headers(start: int, previous: ObjectFacts | None) -> dict[str, str]:
    """Headers that ask for an object from a byte on, unless it has changed since `previous`."""
    # Without a strong tag nothing says whether the rest belongs to the beginning.
    if not start or previous is None or not previous.etag:
        return {}
    return {"range": f"bytes={start}-", "if-range": previous.etag}


async def opened_object(
    answer: OutsideAnswer, start: int, host: str, *, is_bucket: bool = False
) -> OpenObject:
    """The object of an answer to a GET for the bytes from `start` on."""
    if answer.status == 416:
        # The whole object was received already, or the object is another one now.
        raise PassingFault(f"{host}: has no bytes after {start}")
    await check_status(answer, host, 200, 206)
    facts = facts_of(answer.headers, is_bucket=is_bucket)
    begin = 0
    if answer.status == 206:
        found = range_start(answer.headers)
        if found is None or found != start:
            raise PassingFault(f"{host}: sent another range than it was asked for")
        begin = found
    return OpenObject(facts=facts, start=begin, pieces=answer.pieces)


def basic_credentials(location: Location) -> dict[str, str]:
    """The header with the user and the password of a URL; none without them."""
    if not location.user and not location.password:
        return {}
    pair = f"{location.user}:{location.password}".encode("utf-8", "surrogateescape")
    return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}


class HttpTarget:
    """Implements FileTarget."""

    def __init__(
        self,
        http: OutsideHttp,
        location: Location,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._http = http
        self._location = location
        self._headers = {**basic_credentials(location), **(headers or {})}

    async def send(self, file: OutgoingFile) -> str:
        """Send the file; see FileTarget."""
        sender = BodySender(file)
        headers = {
            **self._headers,
            "content-length": str(file.size),
            "content-type": "application/octet-stream",
        }
        sent = self._http.exchange("PUT", self._location, headers, send=sender)
        async with sent as answer:
            await check_status(answer, self._location.host, 200, 201, 204)
        return f"sha256:{sender.sha256.hexdigest()}"

"""Objects of a DRS server as inputs: the server says where the bytes are, and their checksums."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from lading.core.errors import Invalid, Malformed
from lading.core.tes.drs_objects import (
    DrsObject,
    locate,
    read_access,
    read_object,
    validator_of,
)
from lading.core.tes.locations import Location
from lading.core.tes.transfers import ObjectFacts
from lading.core.values import Json
from lading.tes.transfers.endpoints import ObjectSource, OpenObject
from lading.tes.transfers.outside_http import OutsideHttp, check_status

# Bytes of a description.
_MOST = 1 << 20


async def describe(http: OutsideHttp, location: Location, headers: Mapping[str, str]) -> DrsObject:
    """The object at a location, with a way that has a URL. Raises Invalid, PassingFault."""
    try:
        found = read_object(await _read(http, locate(location), headers))
        if found.access.url:
            return found
        told = await _read(http, locate(location, found.access.access_id), headers)
        return replace(found, access=read_access(told))
    except Malformed as error:
        raise Invalid(f"{location.host}: {error.message}") from error


async def _read(http: OutsideHttp, location: Location, headers: Mapping[str, str]) -> Json:
    fields = {"accept": "application/json", **headers}
    async with http.exchange("GET", location, fields) as answer:
        await check_status(answer, location.host, 200)
        raw = await answer.read(_MOST)
    try:
        found: Json = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Invalid(f"{location.host}: the answer of the DRS server is no JSON") from None
    return found


class DrsSource:
    """Implements ObjectSource by the source of the bytes. The checksums of the DRS server count
    too.
    """

    def __init__(self, drs_object: DrsObject, source: ObjectSource, name: str) -> None:
        self._drs_object = drs_object
        self._source = source
        self.name = name

    @asynccontextmanager
    async def open(self, start: int, previous: ObjectFacts | None) -> AsyncGenerator[OpenObject]:
        """Receive the object; see ObjectSource."""
        async with self._source.open(start, previous) as opened:
            sums = {**dict(opened.facts.checksums), **dict(self._drs_object.checksums)}
            facts = replace(
                opened.facts,
                checksums=tuple(sums.items()),
                validator=validator_of(self._drs_object) or opened.facts.validator,
            )
            yield OpenObject(facts=facts, start=opened.start, pieces=opened.pieces)

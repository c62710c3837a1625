"""Lineage of a collection: the containers and contents that it came from, and those that used it.

Source: docs/spec/api, section Collections, provenance and used_by. The answer is {uuid or portable
data hash: record}: contents by their hash, with one readable collection that has it; the containers
between them, and the requests of these. It has only records that the caller can read, within the
scopes of the token (a link that shares one collection shows nothing else), and does not go on
behind others. At most `_LIMIT` containers are followed, the nearest first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.manifests import find_content
from lading.api.resources import collections
from lading.api.serializer import show
from lading.core import ids
from lading.core.errors import Forbidden, NotFound
from lading.core.records import access
from lading.core.records.filters import Among, Column
from lading.core.records.record_types import COLLECTIONS, CONTAINERS, REQUESTS
from lading.core.records.schema import Record, RecordType, Type
from lading.store import contents, records
from lading.store.database import Transaction

# Containers of one answer: enough for a workflow, and little enough for one read transaction.
_LIMIT: Final = 1000
# Contents that are looked up by one query.
_STEP: Final = 100
_Next = Callable[[Transaction, list[str]], Awaitable[list[str]]]
_Ends = Callable[[Record], Iterable[str]]


async def provenance(call: ApiCall) -> ApiResponse:
    """The records that the content came from."""

    async def makers(tx: Transaction, hashes: list[str]) -> list[str]:
        return await contents.makers(tx, hashes, limit=_LIMIT)

    return ApiResponse(body=await _follow(call, makers, _inputs))


async def used_by(call: ApiCall) -> ApiResponse:
    """The records that used the content."""

    async def users(tx: Transaction, hashes: list[str]) -> list[str]:
        return await contents.users(tx, hashes, limit=_LIMIT)

    return ApiResponse(body=await _follow(call, users, _outputs))


async def _follow(call: ApiCall, following: _Next, ends: _Ends) -> Record:
    async with call.services.database.reading() as tx:
        start = await _start(tx, call)
        found: Record = {call.uuid: show(COLLECTIONS, start, COLLECTIONS.listed)}
        known, ahead, left = {start["portable_data_hash"]}, [start["portable_data_hash"]], _LIMIT
        while ahead and left > 0:
            some, ahead = ahead[:_STEP], ahead[_STEP:]
            uuids = [uuid for uuid in await following(tx, some) if uuid not in found][:left]
            left -= len(uuids)
            containers = await _readable(tx, call, CONTAINERS, "uuid", uuids)
            found |= _shown(CONTAINERS, containers)
            found |= _shown(REQUESTS, await _readable(tx, call, REQUESTS, "container_uuid", uuids))
            for pdh in dict.fromkeys(
                pdh for one in containers for pdh in ends(one) if pdh not in known
            ):
                known.add(pdh)
                content = await _content(tx, call, pdh)
                if content is not None:
                    found[pdh] = show(COLLECTIONS, content, COLLECTIONS.listed)
                    ahead.append(pdh)
    return found


async def _start(tx: Transaction, call: ApiCall) -> Record:
    if ids.is_uuid(call.uuid):
        return await collections.find_collection(tx, call.services, call.uuid, call.caller)
    return await find_content(tx, call.services, call.caller, call.uuid)


async def _content(tx: Transaction, call: ApiCall, pdh: str) -> Record | None:
    for one in call.caller.everybody:
        # The caller may not see this content.
        with suppress(Forbidden, NotFound):
            await authorization.check_content_scope(tx, call.services, one, pdh, "provenance")
            return await find_content(tx, call.services, one, pdh)
    return None


async def _readable(
    tx: Transaction, call: ApiCall, kind: RecordType, column: str, values: list[str]
) -> list[Record]:
    if not values:
        return []
    found: dict[str, Record] = {}
    for one in call.caller.everybody:
        where = (
            Among(Column(column, Type.STRING), tuple(values)),
            *access.readable(kind, one, now=call.services.now()),
        )
        rows = await records.find(tx, call.services.database.dialect, kind, where, limit=_LIMIT)
        found |= {row["uuid"]: row for row in rows if access.covers_get(one, kind, row["uuid"])}
    return list(found.values())


def _shown(kind: RecordType, rows: Iterable[Record]) -> Record:
    return {row["uuid"]: show(kind, row) for row in rows}


def _inputs(container: Record) -> Iterable[str]:
    yield container["container_image"]
    for mount in container["mounts"].values():
        pdh = mount.get("portable_data_hash")
        if mount.get("kind") == "collection" and pdh and ids.is_pdh(pdh):
            yield pdh


def _outputs(container: Record) -> Iterable[str]:
    return [pdh for pdh in (container["output"], container["log"]) if pdh]


HANDLERS: Final = {
    "collections.provenance": provenance,
    "collections.used_by": used_by,
}

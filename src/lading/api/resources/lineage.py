"""The lineage of a content: `collections.provenance` and `used_by`, whole or brief.

The brief one is for drawings: few attributes of up to 10,000 containers, which one recursive query
finds. Records that the caller cannot read are left out of the answer. Images are contents too:
those that containers have made are followed. Source: docs/spec/api, section Collections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.manifests import (
    find_content,
)
from lading.api.resources.collections import find_collection
from lading.api.serializer import show
from lading.core import ids
from lading.core.errors import Forbidden, NotFound
from lading.core.records import access
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import Among, Column, Expression, Query
from lading.core.records.permissions import Present
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record, RecordType, Type
from lading.store import records
from lading.store.containers import lineage
from lading.store.database import Transaction

LIMIT: Final = 10_000
_CHUNK: Final = 500
_PRESENT: Final[Expression] = Present()
_OF: Final[dict[str, tuple[str, ...]]] = {
    CONTAINERS.plural: (
        "uuid", "command", "container_image", "mounts", "output", "state", "exit_code",
        "created_at", "withdrawn_at",
    ),
    REQUESTS.plural: (
        "uuid", "name", "state", "container_uuid", "created_at", "owner_uuid",
        "committed_by_uuid", "properties",
    ),
    COLLECTIONS.plural: ("uuid", "portable_data_hash", "name"),
}  # fmt: skip
# Containers of one whole answer: enough for a workflow, and few enough for one read transaction.
_WHOLE_LIMIT: Final = 1000
# Contents that are looked up by one query.
_STEP: Final = 100
_Next = Callable[[Transaction, list[str]], Awaitable[list[str]]]
_Ends = Callable[[Record], Iterable[str]]


async def brief_lineage(
    tx: Transaction, call: ApiCall, pdh: str, *, is_upward: bool
) -> tuple[Record, bool]:
    """The records by uuid or hash, without the content itself; and whether that is all."""
    container_uuids: dict[str, None] = {}
    seen_hashes, ahead = {pdh}, [pdh]
    dialect = call.services.database.dialect
    may_read = access.readable(CONTAINERS, call.caller, now=call.services.clock.now())
    containers: list[Record] = []
    while ahead and len(container_uuids) < LIMIT:
        uuids = await lineage.lineage(
            tx, dialect, ahead, may_read, is_upward=is_upward, limit=LIMIT
        )
        fresh = [uuid for uuid in uuids if uuid not in container_uuids][
            : LIMIT - len(container_uuids)
        ]
        container_uuids |= dict.fromkeys(fresh)
        rows = await _readable(tx, call, CONTAINERS, "uuid", fresh)
        containers += rows
        images = {str(row["container_image"]) for row in rows} if is_upward else set()
        ahead = sorted(images - seen_hashes)
        seen_hashes |= images
    uuids = [str(row["uuid"]) for row in containers]
    requests = await _readable(tx, call, REQUESTS, "container_uuid", uuids)
    hashes = dict.fromkeys(content_hash for row in containers for content_hash in _hashes(row))
    collections = await _readable(tx, call, COLLECTIONS, "portable_data_hash", list(hashes))
    shown: Record = {str(row["uuid"]): row for row in (*containers, *requests)}
    for row in collections:
        shown.setdefault(str(row["portable_data_hash"]), row)
    return shown, len(container_uuids) < LIMIT


def _hashes(container: Record) -> Iterable[str]:
    yield str(container["container_image"])
    for mount in container["mounts"].values():
        if mount.get("kind") == "collection" and mount.get("portable_data_hash"):
            yield str(mount["portable_data_hash"])
    if container["output"]:
        yield str(container["output"])


async def _readable(
    tx: Transaction, call: ApiCall, kind: RecordType, column: str, values: Sequence[str]
) -> list[Record]:
    """The records with one of these values that one of the callers may read."""
    services = call.services
    by_uuid: dict[str, Record] = {}
    for reader in call.caller.everybody:
        may_read = access.readable(kind, reader, now=services.clock.now())
        further = (_PRESENT,) if kind is COLLECTIONS else ()
        for start in range(0, len(values), _CHUNK):
            some = Among(Column(column, Type.STRING), tuple(values[start : start + _CHUNK]))
            query = Query(
                where=(some, *may_read, *further), select=_OF[kind.plural], limit=4 * _CHUNK
            )
            rows = await records.search(tx, tx.dialect, kind, query)
            by_uuid |= {str(row["uuid"]): row for row in rows}
    return list(by_uuid.values())


async def provenance(call: ApiCall) -> ApiResponse:
    """The records that the content came from; few attributes of more of them with `brief`."""
    if call.params.get("brief"):
        return await _brief(call, is_upward=True)

    dialect, may_read = call.services.database.dialect, _readable_containers(call)

    async def makers(tx: Transaction, hashes: list[str]) -> list[str]:
        return await lineage.makers(tx, dialect, hashes, may_read, limit=_WHOLE_LIMIT)

    return ApiResponse(body=await _follow(call, makers, _inputs))


async def used_by(call: ApiCall) -> ApiResponse:
    """The records that used the content; few attributes of more of them with `brief`."""
    if call.params.get("brief"):
        return await _brief(call, is_upward=False)

    dialect, may_read = call.services.database.dialect, _readable_containers(call)

    async def users(tx: Transaction, hashes: list[str]) -> list[str]:
        return await lineage.users(tx, dialect, hashes, may_read, limit=_WHOLE_LIMIT)

    return ApiResponse(body=await _follow(call, users, _outputs))


def _readable_containers(call: ApiCall) -> tuple[Expression, ...]:
    return access.readable(CONTAINERS, call.caller, now=call.services.clock.now())


async def _brief(call: ApiCall, *, is_upward: bool) -> ApiResponse:
    """The brief lineage. Raises Forbidden for a token of limited scopes, which may not read a part
    of the records.
    """
    if any(access.is_limited(reader) for reader in call.caller.everybody):
        raise Forbidden("Forbidden: a token of limited scopes cannot ask for a brief lineage")
    async with call.services.database.reading() as tx:
        start = await _start(tx, call)
        pdh = str(start["portable_data_hash"])
        lineage_records, is_whole = await brief_lineage(tx, call, pdh, is_upward=is_upward)
    own = show(COLLECTIONS, start, ("uuid", "name", "portable_data_hash"))
    return ApiResponse(body={"records": {**lineage_records, call.uuid: own}, "complete": is_whole})


async def _follow(call: ApiCall, following: _Next, ends: _Ends) -> Record:
    async with call.services.database.reading() as tx:
        start = await _start(tx, call)
        shown: Record = {call.uuid: show(COLLECTIONS, start, COLLECTIONS.listed)}
        seen_hashes, ahead, left = (
            {start["portable_data_hash"]},
            [start["portable_data_hash"]],
            _WHOLE_LIMIT,
        )
        while ahead and left > 0:
            some, ahead = ahead[:_STEP], ahead[_STEP:]
            uuids = [uuid for uuid in await following(tx, some) if uuid not in shown][:left]
            left -= len(uuids)
            containers = await _whole_records(tx, call, CONTAINERS, "uuid", uuids)
            shown |= _shown_lineage(CONTAINERS, containers)
            shown |= _shown_lineage(
                REQUESTS, await _whole_records(tx, call, REQUESTS, "container_uuid", uuids)
            )
            for pdh in dict.fromkeys(
                pdh for container in containers for pdh in ends(container) if pdh not in seen_hashes
            ):
                seen_hashes.add(pdh)
                collection = await _content(tx, call, pdh)
                if collection is not None:
                    shown[pdh] = show(COLLECTIONS, collection, COLLECTIONS.listed)
                    ahead.append(pdh)
    return shown


async def _start(tx: Transaction, call: ApiCall) -> Record:
    if ids.is_uuid(call.uuid):
        return await find_collection(
            tx, call.services.clock, call.services.config, call.uuid, call.caller
        )
    return await find_content(tx, call.services.clock, call.caller, call.uuid)


async def _content(tx: Transaction, call: ApiCall, pdh: str) -> Record | None:
    for reader in call.caller.everybody:
        # The caller may not see this content.
        with suppress(Forbidden, NotFound):
            await authorization.check_content_scope(
                tx, call.services.clock, reader, pdh, "provenance"
            )
            return await find_content(tx, call.services.clock, reader, pdh)
    return None


async def _whole_records(
    tx: Transaction, call: ApiCall, kind: RecordType, column: str, values: list[str]
) -> list[Record]:
    if not values:
        return []
    by_uuid: dict[str, Record] = {}
    for reader in call.caller.everybody:
        where = (
            Among(Column(column, Type.STRING), tuple(values)),
            *access.readable(kind, reader, now=call.services.clock.now()),
        )
        rows = await records.find(tx, tx.dialect, kind, where, limit=_WHOLE_LIMIT)
        by_uuid |= {
            row["uuid"]: row for row in rows if access.covers_get(reader, kind, row["uuid"])
        }
    return list(by_uuid.values())


def _shown_lineage(kind: RecordType, rows: Iterable[Record]) -> Record:
    return {row["uuid"]: show(kind, row) for row in rows}


def _inputs(container: Record) -> Iterable[str]:
    yield container["container_image"]
    for mount in container["mounts"].values():
        pdh = mount.get("portable_data_hash")
        if mount.get("kind") == "collection" and pdh and ids.is_pdh(pdh):
            yield pdh


def _outputs(container: Record) -> Iterable[str]:
    return [pdh for pdh in (container["output"], container["log"]) if pdh]


HANDLERS: Final = {"collections.provenance": provenance, "collections.used_by": used_by}

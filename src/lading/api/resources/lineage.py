"""The lineage of a content for a drawing: as `collections.provenance` and `used_by`, with few
attributes of up to 10,000 containers.

The containers are found by one recursive query, whoever may read them; what the caller cannot read
is left out of the answer. Images are contents too: those that containers have made are followed.
Source: docs/spec/api, section Collections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lading.api.http import ApiCall
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


async def brief_lineage(
    tx: Transaction, call: ApiCall, pdh: str, *, is_upward: bool
) -> tuple[Record, bool]:
    """The records by uuid or hash, without the content itself; and whether that is all."""
    found: dict[str, None] = {}
    known, ahead = {pdh}, [pdh]
    dialect = call.services.database.dialect
    may_read = access.readable(CONTAINERS, call.caller, now=call.services.clock.now())
    containers: list[Record] = []
    while ahead and len(found) < LIMIT:
        uuids = await lineage.lineage(
            tx, dialect, ahead, may_read, is_upward=is_upward, limit=LIMIT
        )
        fresh = [uuid for uuid in uuids if uuid not in found][: LIMIT - len(found)]
        found |= dict.fromkeys(fresh)
        rows = await _readable(tx, call, CONTAINERS, "uuid", fresh)
        containers += rows
        images = {str(row["container_image"]) for row in rows} if is_upward else set()
        ahead = sorted(images - known)
        known |= images
    uuids = [str(row["uuid"]) for row in containers]
    requests = await _readable(tx, call, REQUESTS, "container_uuid", uuids)
    hashes = dict.fromkeys(one for row in containers for one in _hashes(row))
    collections = await _readable(tx, call, COLLECTIONS, "portable_data_hash", list(hashes))
    shown: Record = {str(row["uuid"]): row for row in (*containers, *requests)}
    for row in collections:
        shown.setdefault(str(row["portable_data_hash"]), row)
    return shown, len(found) < LIMIT


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
    found: dict[str, Record] = {}
    for one in call.caller.everybody:
        may_read = access.readable(kind, one, now=services.clock.now())
        further = (_PRESENT,) if kind is COLLECTIONS else ()
        for start in range(0, len(values), _CHUNK):
            some = Among(Column(column, Type.STRING), tuple(values[start : start + _CHUNK]))
            query = Query(
                where=(some, *may_read, *further), select=_OF[kind.plural], limit=4 * _CHUNK
            )
            rows = await records.search(tx, tx.dialect, kind, query)
            found |= {str(row["uuid"]): row for row in rows}
    return list(found.values())

"""`include` on lists: the records that the rows name, as far as the caller can read them.

Source: docs/spec/api, section Lists.

`include=["container_uuid"]` answers, beside the requests of a page, their containers, each once.
"""

from __future__ import annotations

from collections.abc import Iterable

from lading.api.caller_serializer import present
from lading.api.http import Call
from lading.core.records import access, mixed_lists
from lading.core.records.filters import Among, Column
from lading.core.records.record_types import BY_INFIX
from lading.core.records.schema import JSON, Record, RecordType, Type
from lading.store import records
from lading.store.database import Transaction


async def find_included(
    tx: Transaction,
    call: Call,
    rows: Iterable[Record],
    names: tuple[str, ...],
    *,
    select: JSON = None,
) -> list[Record]:
    """The readable records that the fields `names` of some rows name, as lists show them, ordered
    by uuid.

    `select` are the attributes that the caller wants of them, None for all that lists show.
    """
    wanted: dict[str, set[str]] = {}
    for row in rows:
        for name in names:
            uuid = row.get(name)
            if uuid:
                wanted.setdefault(uuid[6:11], set()).add(uuid)
    found: list[Record] = []
    for infix, uuids in wanted.items():
        kind = BY_INFIX.get(infix)
        if kind is not None and kind.stored:
            found += await _readable(tx, call, kind, uuids, mixed_lists.selected_of(select, kind))
    return sorted(found, key=lambda one: str(one["uuid"]))


async def _readable(
    tx: Transaction, call: Call, kind: RecordType, uuids: set[str], names: tuple[str, ...]
) -> list[Record]:
    """Those that one of the callers can read and whose scopes include a GET of them, or of their
    list.
    """
    dialect, now = call.services.database.dialect, call.services.now()
    found: dict[str, Record] = {}
    for one in call.caller.everybody:
        within = [
            uuid
            for uuid in uuids
            if access.covers_list(one, kind) or access.covers_get(one, kind, uuid)
        ]
        where = (
            *access.readable(kind, one, now=now, include_trash=True),
            Among(Column("uuid", Type.STRING), tuple(sorted(within))),
        )
        if within:
            found |= {row["uuid"]: row for row in await records.find(tx, dialect, kind, where)}
    return await present(tx, call.services, call.caller, kind, list(found.values()), names)

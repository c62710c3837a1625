"""List, get and the steps of create, update and delete that all record types share (api-contract 4.3-4.12)."""

from __future__ import annotations

from collections.abc import Sequence

from lading.api import audit
from lading.api.exchange import Answer, Call
from lading.api.services import Services
from lading.api.shape import needed, show, show_row
from lading.core import access, attributes, ids
from lading.core.access import Principal
from lading.core.errors import Conflict, Invalid, NotFound
from lading.core.filters import Expression, Query, check_query, check_select
from lading.core.records import USERS
from lading.core.schema import JSON, Record, RecordType
from lading.store import records
from lading.store.database import Transaction


async def list_records(call: Call, kind: RecordType, where: Sequence[Expression] = ()) -> Answer:
    """A page of the records that the caller can read and that meet `where` and the caller's filters."""
    query = prepare_query(call, kind, where)
    database = call.services.database
    async with database.reading() as tx:
        rows = await records.search(tx, database.dialect, kind, query) if query.limit else []
        available = await records.count(tx, database.dialect, kind, query) if query.count else None
    names = query.select if query.select is not None else kind.listed
    items = [show_row(kind, row, names, distinct=query.distinct) for row in rows]
    return Answer(body=envelope(kind, query, items, available))


def prepare_query(call: Call, kind: RecordType, where: Sequence[Expression] = ()) -> Query:
    """The checked query of a list call, restricted to what the caller can read. Raises Invalid."""
    asked = check_query(call.params, kind, max_limit=call.services.config.API.MaxItemsPerResponse)
    names = asked.select if asked.select is not None else kind.listed
    return Query(
        where=(*access.readable(kind, call.caller), *where, *asked.where),
        order=asked.order,
        select=asked.select,
        limit=asked.limit,
        offset=asked.offset,
        distinct=asked.distinct,
        count=asked.count,
        extra=needed(kind, names),
    )


def envelope(kind: RecordType, query: Query, items: list[Record], available: int | None) -> Record:
    """A list answer."""
    body: Record = {
        "kind": f"{kind.kind}List",
        "etag": "",
        "self_link": "",
        "offset": query.offset,
        "limit": query.limit,
        "items": items,
        "included": [],
    }
    if available is not None:
        body["items_available"] = available
    return body


async def get_record(call: Call, kind: RecordType) -> Answer:
    """One record."""
    select = check_select(call.params.get("select"), kind)
    async with call.services.database.reading() as tx:
        record = await find_readable(tx, call.services, kind, call.uuid, call.caller)
    return Answer(body=show(kind, record, select))


async def find_readable(
    tx: Transaction, services: Services, kind: RecordType, uuid: str, principal: Principal
) -> Record:
    """The record, if the caller can read it. Raises NotFound."""
    record = await records.get(tx, kind, uuid)
    if record is None:
        raise NotFound(f"Path not found: no {kind.singular} {uuid[:60]!r}")
    if principal.is_admin:
        return record
    if (kind is USERS and uuid == principal.user_uuid) or (kind.owned and record["owner_uuid"] == principal.user_uuid):
        return record
    condition = (*access.readable(kind, principal), records.equals(kind, "uuid", uuid))
    if not await records.find(tx, services.database.dialect, kind, condition, limit=1):
        raise NotFound(f"Path not found: no {kind.singular} {uuid[:60]!r}")
    return record


def check_attributes(call: Call, kind: RecordType, stored: Record | None) -> Record:
    """What the caller wants to write, checked for names and types. Raises Invalid."""
    return attributes.check(
        call.attributes(kind),
        kind,
        stored=stored,
        admin=call.caller.is_admin,
        cluster=call.services.config.ClusterID,
    )


def new_record(call: Call, kind: RecordType, given: Record) -> Record:
    """A whole new record: defaults, what was given, and the common fields."""
    services, now = call.services, call.services.now()
    return {
        **kind.defaults,
        **given,
        "uuid": given.get("uuid") or services.new_uuid(kind.infix),
        "owner_uuid": given.get("owner_uuid") or call.caller.user_uuid,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": call.caller.user_uuid,
    }


async def check_owner(tx: Transaction, call: Call, owner_uuid: JSON) -> None:
    """Raises Invalid when the owner is not a user, Forbidden when it is somebody else."""
    if owner_uuid == call.caller.user_uuid:
        return
    if not isinstance(owner_uuid, str) or not ids.is_uuid(owner_uuid, ids.Infix.USER):
        raise Invalid(f"owner_uuid: {owner_uuid!r} is not the uuid of a user")
    access.check_owner(call.caller, owner_uuid)
    if await records.get(tx, USERS, owner_uuid) is None:
        raise Invalid(f"owner_uuid: '{owner_uuid}' not found")


async def insert(tx: Transaction, call: Call, kind: RecordType, record: Record) -> None:
    """Store a new record and its trail. Raises Invalid when it collides."""
    await records.insert(tx, kind, record)
    await audit.created(tx, call.services, kind, record, user_uuid=call.caller.user_uuid)


async def apply(
    tx: Transaction, services: Services, kind: RecordType, old: Record, changes: Record, *, user_uuid: str
) -> Record:
    """Change a record, and write the trail; the new record. Without real changes nothing is touched."""
    real = {name: value for name, value in changes.items() if old.get(name) != value}
    if not real:
        return old
    real |= {"modified_at": services.now(), "modified_by_user_uuid": user_uuid}
    if not await records.update(tx, kind, old["uuid"], real, expected={"modified_at": old["modified_at"]}):
        raise Conflict(f"{old['uuid']}: somebody else changed it first; read it again")
    new = {**old, **real}
    await audit.changed(tx, services, kind, old, new, user_uuid=user_uuid)
    return new


async def delete_record(call: Call, kind: RecordType) -> Answer:
    """Remove a record."""
    async with call.services.database.writing() as tx:
        old = await find_readable(tx, call.services, kind, call.uuid, call.caller)
        access.check_writable(call.caller, old)
        await remove(tx, call, kind, old)
    return Answer(body=show(kind, old))


async def remove(tx: Transaction, call: Call, kind: RecordType, record: Record) -> None:
    """Take a record out and write the trail."""
    await records.delete(tx, kind, record["uuid"])
    await audit.deleted(tx, call.services, kind, record, user_uuid=call.caller.user_uuid)

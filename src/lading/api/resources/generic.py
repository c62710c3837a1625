"""Operations that all record types share: list, get, and steps of create, update and delete.

`include=["container_uuid"]` of a list answers, beside the requests of a page, their containers,
each once, as far as the caller can read them. Source: docs/spec/api, sections Parameters and
attributes, Lists, Filters, Order and select, Errors and Records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lading.api.authorization import check_writable, find_readable
from lading.api.cancelled_view import find_view, show_covered
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.serializer import (
    check_match,
    is_plain,
    needed,
    present,
    present_one,
    show,
    show_texts,
)
from lading.api.server.identifiers import ApiClock
from lading.api.services import ApiServices
from lading.config.site import Config
from lading.core.errors import Conflict
from lading.core.records import access, attributes, mixed_lists
from lading.core.records.access import Principal
from lading.core.records.collection_rules import Lifetimes, times
from lading.core.records.expressions import Among, Column, Expression, Query, columns_of
from lading.core.records.filters import check_query, check_select
from lading.core.records.permissions import Accessible
from lading.core.records.record_types import BY_INFIX, LINKS
from lading.core.records.schema import JSON, Record, RecordType, Type
from lading.store import permission_queries, records
from lading.store.database import Transaction


async def list_records(
    call: ApiCall, kind: RecordType, where: Sequence[Expression] = ()
) -> ApiResponse:
    """A page of the records that the caller can read and that meet `where` and the caller's
    filters.
    """
    query = prepare_query(call, kind, where)
    database = call.services.database
    async with database.reading() as tx:
        query = await narrowed(tx, kind, query, call.caller)
        view = await find_view(tx, call.services, kind)
        if view is not None:
            query = replace(query, where=view.heed(kind, query.where))
        available = await records.count(tx, tx.dialect, kind, query) if query.count else None
        # Fast path: the database makes the JSON of each record, and no row becomes Python objects.
        is_quick = view is None and is_plain(kind) and not query.include and not query.distinct
        if is_quick and query.limit:
            texts = await records.search_texts(tx, tx.dialect, kind, query)
            if texts is not None:
                body = envelope(kind, query, [], available)
                return ApiResponse(body={**body, "items": show_texts(kind, texts)})
        rows = await records.search(tx, tx.dialect, kind, query, raw=True) if query.limit else []
        if view is not None and not query.distinct:
            await show_covered(tx, view, kind, rows)
        included = await find_included(tx, call, rows, query.include) if query.include else []
        names = query.select if query.select is not None else kind.listed
        items = await present(
            tx, call.services.config, call.caller, kind, rows, names, distinct=query.distinct
        )
    return ApiResponse(body={**envelope(kind, query, items, available), "included": included})


def prepare_query(call: ApiCall, kind: RecordType, where: Sequence[Expression] = ()) -> Query:
    """The checked query of a list call, restricted to what the caller can read. Raises Invalid."""
    asked = check_query(call.params, kind, max_limit=call.services.config.API.MaxItemsPerResponse)
    # A filter on the containers of requests needs a scope for containers: the number of hits would
    # reveal them.
    access.check_filters(call.caller, asked.where)
    names = asked.select if asked.select is not None else kind.listed
    named = {name for condition in asked.where for name in columns_of(condition)}
    # The rows of a distinct list say which values there are.
    depends = named.union(names) if asked.distinct else named
    return Query(
        where=(*readable(call, kind, frozenset(depends)), *where, *asked.where),
        order=access.sortable(kind, call.caller, asked.order),
        select=asked.select,
        limit=asked.limit,
        offset=asked.offset,
        distinct=asked.distinct,
        count=asked.count,
        extra=(*needed(kind, names), *asked.include),
        include=asked.include,
        most_bytes=call.services.config.API.MaxIndexDatabaseRead,
    )


def readable(
    call: ApiCall, kind: RecordType, asked: frozenset[str] = frozenset()
) -> tuple[Expression, ...]:
    """The conditions that records meet which the caller can read, with or without the trash as the
    call asks; with `asked` those of which the caller sees these attributes.
    """
    return access.readable(
        kind,
        call.caller,
        now=call.services.clock.now(),
        include_trash=bool(call.params.get("include_trash")),
        roles=call.services.config.Users.RoleGroupsVisibleToAll,
        asked=asked,
    )


async def narrowed(tx: Transaction, kind: RecordType, query: Query, principal: Principal) -> Query:
    """The same query in the form that is fastest for the records that the caller can read."""
    if not any(isinstance(condition, Accessible) for condition in query.where):
        return query
    accessible = await permission_queries.accessible(tx, kind, principal.user_uuid)
    return replace(
        query,
        where=tuple(
            accessible if isinstance(condition, Accessible) else condition
            for condition in query.where
        ),
    )


def envelope(kind: RecordType, query: Query, items: list[Record], available: int | None) -> Record:
    """The body of a list."""
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


async def get_record(call: ApiCall, kind: RecordType) -> ApiResponse:
    """One record."""
    select = check_select(call.params.get("select"), kind)
    async with call.services.database.reading() as tx:
        trash = bool(call.params.get("include_trash"))
        record = await find_readable(
            tx,
            call.services.clock,
            call.services.config,
            kind,
            call.uuid,
            call.caller,
            include_trash=trash,
            raw=True,
        )
        view = await find_view(tx, call.services, kind)
        if view is not None:
            await show_covered(tx, view, kind, [record])
        return ApiResponse(
            body=await present_one(tx, call.services.config, call.caller, kind, record, select)
        )


def check_attributes(
    call: ApiCall, kind: RecordType, stored: Record | None, sent: Record | None = None
) -> Record:
    """The attributes of the call, or `sent`, with names and types checked. Raises Invalid."""
    return attributes.check(
        call.attributes(kind) if sent is None else sent,
        kind,
        stored=stored,
        admin=call.caller.is_admin,
        cluster=call.services.config.ClusterID,
    )


def new_record(call: ApiCall, kind: RecordType, attributes: Record) -> Record:
    """A complete new record: defaults, given attributes, and the common attributes."""
    services, now = call.services, call.services.clock.now()
    return {
        **kind.defaults,
        **attributes,
        "uuid": attributes.get("uuid") or services.ids.new_uuid(kind.infix),
        "owner_uuid": attributes.get("owner_uuid") or call.caller.user_uuid,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": call.caller.user_uuid,
    }


async def insert(tx: Transaction, call: ApiCall, kind: RecordType, record: Record) -> None:
    """Store a new record and its log row. Raises Invalid for a duplicate key."""
    await records.insert(tx, kind, record)
    if kind in permission_queries.SUBJECTS:
        await permission_queries.follow_insert(tx, kind, record)
    await audit.created(tx, call.services, kind, record, user_uuid=call.caller.user_uuid)


async def apply(
    tx: Transaction,
    services: ApiServices,
    kind: RecordType,
    old: Record,
    changes: Record,
    *,
    user_uuid: str,
) -> Record:
    """Change a record and write its log row; the new record. A change of nothing writes nothing."""
    # A client that sends a whole record back changes nothing, and makes no event.
    real = {name: value for name, value in changes.items() if old.get(name) != value}
    if not real:
        return old
    real |= {"modified_at": services.clock.now(), "modified_by_user_uuid": user_uuid}
    if not await records.update(
        # `modified_at` stands for the version that was read: a change by another call in between is
        # refused.
        tx,
        kind,
        old["uuid"],
        real,
        expected={"modified_at": old["modified_at"]},
    ):
        raise Conflict(f"{old['uuid']}: it was changed at the same time; read it again")
    new = {**old, **real}
    await permission_queries.follow_change(tx, kind, old, new)
    await audit.changed(tx, services, kind, old, new, user_uuid=user_uuid)
    return new


async def delete_record(call: ApiCall, kind: RecordType) -> ApiResponse:
    """Delete a record."""
    async with call.services.database.writing() as tx:
        old = await find_readable(
            tx, call.services.clock, call.services.config, kind, call.uuid, call.caller
        )
        await check_writable(tx, kind, old, call.caller)
        check_match(call, old)
        await remove(tx, call.services, kind, old, user_uuid=call.caller.user_uuid)
    return ApiResponse(body=show(kind, old))


async def remove(
    tx: Transaction, services: ApiServices, kind: RecordType, record: Record, *, user_uuid: str
) -> None:
    """Delete a record and the permission links of which it is an end, and write their log rows."""
    for link in await permission_queries.links_of(tx, kind, record["uuid"]):
        await remove(tx, services, LINKS, link, user_uuid=user_uuid)
    # After its links: each of them has a log row of its own.
    await records.delete(tx, kind, record["uuid"])
    await permission_queries.follow_removal(tx, kind, record)
    await audit.deleted(tx, services, kind, record, user_uuid=user_uuid)


async def find_included(
    tx: Transaction,
    call: ApiCall,
    rows: Iterable[Record],
    names: tuple[str, ...],
    *,
    select: JSON = None,
) -> list[Record]:
    """The readable records that the attributes `names` of some rows name, as lists show them,
    ordered by uuid.

    `select` are their selected attributes, None for all that lists show.
    """
    uuids_by_type: dict[str, set[str]] = {}
    for row in rows:
        for name in names:
            uuid = row.get(name)
            if uuid:
                # By type, for one query each.
                uuids_by_type.setdefault(uuid[6:11], set()).add(uuid)
    included: list[Record] = []
    for infix, uuids in uuids_by_type.items():
        kind = BY_INFIX.get(infix)
        if kind is not None and kind.stored:
            included += await _readable(
                tx, call, kind, uuids, mixed_lists.selected_of(select, kind)
            )
    return sorted(included, key=lambda record: str(record["uuid"]))


async def _readable(
    tx: Transaction, call: ApiCall, kind: RecordType, uuids: set[str], names: tuple[str, ...]
) -> list[Record]:
    """The records that one of the callers can read and whose scopes include a GET of them, or of
    their list.
    """
    dialect, now = call.services.database.dialect, call.services.clock.now()
    by_uuid: dict[str, Record] = {}
    # Each reader has rights and scopes of its own: they must not add up on one record.
    for reader in call.caller.everybody:
        within = [
            uuid
            for uuid in uuids
            if access.covers_list(reader, kind) or access.covers_get(reader, kind, uuid)
        ]
        where = (
            *access.readable(kind, reader, now=now, include_trash=True),
            Among(Column("uuid", Type.STRING), tuple(sorted(within))),
        )
        if within:
            by_uuid |= {row["uuid"]: row for row in await records.find(tx, dialect, kind, where)}
    view = await find_view(tx, call.services, kind)
    if view is not None:
        await show_covered(tx, view, kind, list(by_uuid.values()))
    return await present(tx, call.services.config, call.caller, kind, list(by_uuid.values()), names)


def trash_times(clock: ApiClock, config: Config, old: Record, attributes: Record) -> Record:
    """`trash_at`, `delete_at` and `is_trashed` after a write; empty if the write names none of
    them. Raises Invalid.
    """
    settings = config.Collections
    lifetimes = Lifetimes(usual=settings.DefaultTrashLifetime, least=settings.BlobSigningTTL)
    return times(old, attributes, now=clock.now(), lifetimes=lifetimes)

"""Lists of the contents of a user or a group, and of the projects that are shared with the caller.

They have records of several types, one type after another (`core.records.mixed_lists`), each
restricted to the records that the caller can read. A project, or a user, contains the records that
it owns; a filter group the records of any owner that meet its filters.

Source: docs/spec/api, section Groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lading.api import authorization
from lading.api.cancelled_view import find_view, show_covered
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import collections, generic
from lading.api.resources.generic import find_included
from lading.api.serializer import needed, present
from lading.core import ids
from lading.core.errors import Invalid, NotFound
from lading.core.records import access, mixed_lists
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import (
    Among,
    Column,
    Compare,
    Either,
    Expression,
    IsKind,
    Not,
    Query,
)
from lading.core.records.mixed_lists import MixedListPart
from lading.core.records.permissions import GroupClass, Inside, Reachable
from lading.core.records.record_types import BY_INFIX, BY_PLURAL, COLLECTIONS, GROUPS, USERS
from lading.core.records.schema import JSON, Record, RecordType, Type
from lading.store import records
from lading.store.database import Dialect, Transaction

CONTENT: Final = tuple(
    BY_PLURAL[name] for name in ("groups", "container_requests", "workflows", "collections")
)
"""The types of records that groups show, in order."""
# Attributes whose records may be answered too, and the types of these.
_INCLUDED: Final[Mapping[str, tuple[RecordType, ...]]] = {
    "owner_uuid": (USERS, GROUPS),
    "container_uuid": (CONTAINERS,),
    "collection_uuid": (COLLECTIONS,),
}
_OWNER: Final = Column("owner_uuid", Type.STRING)


async def list_contents(call: ApiCall) -> ApiResponse:
    """The contents of a user or group, or all records that the caller can read."""
    uuid = call.uuid or call.params.get("uuid")
    include = _include(call.params.get("include"))
    limits = call.services.config.API
    # `include` is checked here for all kinds together.
    asked = {**call.params, "include": None}
    database = call.services.database
    async with database.reading() as tx:
        holder = None if uuid is None else await _holder(tx, call, uuid)
        parts = _list_parts(
            holder,
            mixed_lists.split(
                asked, CONTENT, max_limit=limits.MaxItemsPerResponse, beside=_beside(include)
            ),
        )
        where = _place(call, holder)
        queries = [
            await generic.narrowed(
                tx, list_part.kind, _restricted(call, list_part, where, include), call.caller
            )
            for list_part in parts
        ]
        views = {
            list_part.kind: await find_view(tx, call.services, list_part.kind)
            for list_part in parts
        }
        queries = [
            query if view is None else replace(query, where=view.heed(kind, query.where))
            for query, (kind, view) in zip(queries, views.items(), strict=True)
        ]
        first = parts[0].query if parts else Query()
        kinds = [list_part.kind for list_part in parts]
        rows_by_kind, available = await _page(
            tx, tx.dialect, kinds, queries, first, limits.MaxIndexDatabaseRead
        )
        for kind, some in rows_by_kind:
            if (view := views[kind]) is not None:
                await show_covered(tx, view, kind, some)
        rows = [row for _, rows in rows_by_kind for row in rows]
        included = await find_included(tx, call, rows, include, select=call.params.get("select"))
        items = await _shown(tx, call, rows_by_kind, parts)
    body: Record = {
        "kind": "arvados#objectList",
        "etag": "",
        "self_link": "",
        "offset": first.offset,
        "limit": first.limit,
        "items": items,
        "included": included,
    }
    return ApiResponse(body={**body, "items_available": available} if first.count else body)


async def _page(
    tx: Transaction,
    dialect: Dialect,
    kinds: Sequence[RecordType],
    queries: Sequence[Query],
    first: Query,
    most_bytes: int,
) -> tuple[list[tuple[RecordType, list[Record]]], int]:
    """The rows of a page that goes over several types, type by type; and how many there are in all
    if `first`, the query that says how the page is cut, asks for a count.
    """
    rows_by_kind: list[tuple[RecordType, list[Record]]] = []
    limit, offset, available = first.limit, first.offset, 0
    for kind, query in zip(kinds, queries, strict=True):
        # To skip an offset over several kinds, the number of each has to be known.
        counted = first.count or bool(offset)
        number = await records.count(tx, dialect, kind, query) if counted else 0
        rows: list[Record] = []
        # No query for rows where all of a type lies before the page, or the page is full.
        if limit and (offset < number or not offset):
            page = replace(query, limit=limit, offset=offset, most_bytes=most_bytes // len(kinds))
            rows = await records.search(tx, dialect, kind, page, raw=True)
        available += number
        if 0 < len(rows) < limit and not counted:
            # A short page ends the type, or was cut at `most_bytes`: the count tells which.
            number = await records.count(tx, dialect, kind, query)
        is_cut = bool(rows) and len(rows) < min(limit, number - offset)
        offset, limit = max(0, offset - number), 0 if is_cut else limit - len(rows)
        rows_by_kind.append((kind, rows))
    return rows_by_kind, available


async def list_shared(call: ApiCall) -> ApiResponse:
    """Projects and filter groups that are neither in a project of the caller nor in one that the
    caller can read.
    """
    caller = call.caller
    include = _include(call.params.get("include"))
    owned_by_user = IsKind("owner_uuid", (str(ids.Infix.USER),))
    outside: Expression = owned_by_user
    if not caller.is_admin:
        # Projects within a readable project are found there.
        outside = Either((owned_by_user, Not(Reachable(caller.user_uuid, "owner_uuid"))))
    classes = (GroupClass.PROJECT.value, GroupClass.FILTER.value)
    where = (
        Among(Column("group_class", Type.STRING), classes),
        Compare(_OWNER, "!=", caller.user_uuid),
        outside,
    )
    # Included records are found below, and not by the list.
    call.params["include"] = None
    database = call.services.database
    query = generic.prepare_query(call, GROUPS, where)
    names = query.select if query.select is not None else GROUPS.listed
    async with database.reading() as tx:
        query = replace(query, extra=(*query.extra, "owner_uuid"))
        rows = await records.search(tx, tx.dialect, GROUPS, query, raw=True) if query.limit else []
        available = await records.count(tx, tx.dialect, GROUPS, query) if query.count else None
        included = await find_included(
            tx, call, rows, tuple(name for name in include if name == "owner_uuid")
        )
        items = await present(
            tx, call.services.config, caller, GROUPS, rows, names, distinct=query.distinct
        )
    return ApiResponse(
        body={**generic.envelope(GROUPS, query, items, available), "included": included}
    )


def _beside(include: Iterable[str]) -> tuple[RecordType, ...]:
    return tuple(kind for name in include for kind in _INCLUDED[name])


def _include(value: JSON) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value or []
    # A list is compared, not hashed: its elements may be of any type.
    if not isinstance(names, list) or not all(name in tuple(_INCLUDED) for name in names):
        raise Invalid(f"include: must be among {', '.join(_INCLUDED)}")
    return tuple(dict.fromkeys(names))


async def _holder(tx: Transaction, call: ApiCall, uuid: JSON) -> Record:
    """The user or group whose contents are listed. Raises NotFound."""
    kind = BY_INFIX.get(ids.infix_of(uuid)) if isinstance(uuid, str) and ids.is_uuid(uuid) else None
    if kind not in (USERS, GROUPS):
        raise NotFound(f"Path not found: {str(uuid)[:60]!r} is neither a group nor a user")
    trash = bool(call.params.get("include_trash"))
    return await authorization.find_readable(
        tx,
        call.services.clock,
        call.services.config,
        kind,
        str(uuid),
        call.caller,
        include_trash=trash,
    )


def _list_parts(holder: Record | None, parts: Sequence[MixedListPart]) -> tuple[MixedListPart, ...]:
    """The parts of the list. For a filter group its filters are added, and types that they exclude
    are left out.
    """
    if holder is None or holder.get("group_class") != GroupClass.FILTER:
        return tuple(parts)
    own = {
        list_part.kind.plural: list_part.query.where
        for list_part in mixed_lists.split(
            {"filters": holder["properties"]["filters"]}, CONTENT, max_limit=0
        )
    }
    return tuple(
        MixedListPart(
            list_part.kind,
            replace(list_part.query, where=(*list_part.query.where, *own[list_part.kind.plural])),
        )
        for list_part in parts
        if list_part.kind.plural in own
    )


def _place(call: ApiCall, holder: Record | None) -> tuple[Expression, ...]:
    """The condition that a record is in the listed place."""
    home = call.caller.user_uuid
    where: list[Expression] = []
    if holder is not None and holder.get("group_class") != GroupClass.FILTER:
        where.append(Inside("owner_uuid", holder["uuid"], deep=bool(call.params.get("recursive"))))
    if call.params.get("exclude_home_project"):
        if holder is not None:
            raise Invalid("exclude_home_project: only without a uuid")
        where.append(Compare(_OWNER, "!=", home))
    return tuple(where)


def _restricted(
    call: ApiCall, list_part: MixedListPart, where: Sequence[Expression], include: tuple[str, ...]
) -> Query:
    kind, query = list_part.kind, list_part.query
    access.check_filters(call.caller, query.where)
    conditions: tuple[Expression, ...] = (*generic.readable(call, kind), *where, *query.where)
    if kind is COLLECTIONS:
        conditions += collections.listed(call)
    names = query.select if query.select is not None else kind.listed
    extra = (*needed(kind, names), *(name for name in include if name in kind.by_name))
    return replace(query, where=conditions, extra=extra)


async def _shown(
    tx: Transaction,
    call: ApiCall,
    rows_by_kind: Sequence[tuple[RecordType, list[Record]]],
    parts: Sequence[MixedListPart],
) -> list[Record]:
    selected: Mapping[str, tuple[str, ...] | None] = {
        list_part.kind.plural: list_part.query.select for list_part in parts
    }
    items: list[Record] = []
    for kind, rows in rows_by_kind:
        names = selected[kind.plural] or kind.listed
        items += await present(tx, call.services.config, call.caller, kind, rows, names)
    return items

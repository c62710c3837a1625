"""Groups: projects, roles and filter groups, and lists of their contents.

- Permissions are updated in the same transaction (`store.permission_queries`). The user who creates
  a role manages it, by a link.
- When the time of a group in the trash is over, it is deleted with all that it owns.
- Lists of contents, and of shared groups, have records of several types, one type after another
  (`core.records.mixed_lists`), each restricted to the records that the caller can read. A project,
  or a user, contains the records that it owns; a filter group the records of any owner that meet
  its filters.

Source: docs/spec/api, sections Records and Groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lading.api import authorization, priorities
from lading.api.http import ApiCall, ApiResponse, check_match, needed, present, present_one
from lading.api.resources import collections, generic, links
from lading.api.resources.generic import find_included
from lading.api.services import ApiServices
from lading.api.transaction import UnitOfWork
from lading.core import ids
from lading.core.containers.attempts.retry_rules import SHARE, read_container_policy
from lading.core.errors import Invalid, NotFound
from lading.core.policy import fair_share
from lading.core.records import access, mixed_lists
from lading.core.records import permissions as group_rules
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
from lading.core.records.filters import check_select
from lading.core.records.mixed_lists import MixedListPart
from lading.core.records.permissions import NAMES, GroupClass, Inside, Level, Reachable
from lading.core.records.record_types import (
    BY_INFIX,
    BY_PLURAL,
    COLLECTIONS,
    CONTAINERS,
    GROUPS,
    LINKS,
    LOGS,
    RECORDS,
    REQUESTS,
    TOKENS,
    USERS,
)
from lading.core.records.schema import JSON, Record, RecordType, Type
from lading.store import permissions, records, upkeep
from lading.store.cascades import AT_ONCE
from lading.store.database import Dialect, Transaction
from lading.store.permission_queries import PERMISSION

CONTENT: Final = tuple(
    BY_PLURAL[name] for name in ("groups", "container_requests", "workflows", "collections")
)
"""The types of records that groups show, in order."""
_OWNED: Final = tuple(
    one for one in RECORDS if one.stored and one.owned and one not in (USERS, GROUPS, TOKENS, LOGS)
)
_Wanted = Callable[[ApiCall, RecordType, Record], Record]


async def list_groups(call: ApiCall) -> ApiResponse:
    """A page of groups."""
    return await generic.list_records(call, GROUPS)


async def get_group(call: ApiCall) -> ApiResponse:
    """One group."""
    return await generic.get_record(call, GROUPS)


async def create_group(call: ApiCall) -> ApiResponse:
    """A new group."""
    select = check_select(call.params.get("select"), GROUPS)
    services, caller = call.services, call.caller
    given = generic.check_attributes(call, GROUPS, None)
    record = generic.new_record(call, GROUPS, given)
    record |= generic.trash_times(services.clock, services.config, GROUPS.defaults, given)
    is_role = record["group_class"] == GroupClass.ROLE
    # Roles belong to the system user, so that no deletion of a user takes them away; managers
    # are given by permissions.
    record["owner_uuid"] = services.ids.system_user if is_role else record["owner_uuid"]
    async with services.database.writing() as tx:
        _check(call, record, None, level=Level.MANAGE, frozen_above=False)
        if not is_role:
            await authorization.check_owner(tx, call, record["owner_uuid"])
        await _settle_name(tx, call, record)
        await generic.insert(tx, call, GROUPS, record)
        # An admin manages every role anyway.
        if is_role and not caller.is_admin:
            ends = {
                "tail_uuid": caller.user_uuid,
                "head_uuid": record["uuid"],
                "link_class": PERMISSION,
            }
            link = generic.new_record(call, LINKS, {**ends, "name": NAMES[Level.MANAGE]})
            await links.grant(tx, call, link, Level.MANAGE)
        return ApiResponse(
            body=await present_one(tx, services.config, caller, GROUPS, record, select)
        )


async def update_group(call: ApiCall) -> ApiResponse:
    """Change a group, move it, freeze or thaw it, put it in the trash or take it out."""
    return await _change(call, generic.check_attributes)


async def delete_group(call: ApiCall) -> ApiResponse:
    """Put a project or filter group in the trash; remove a role at once."""
    async with call.services.database.reading() as tx:
        found = await authorization.find_readable(
            tx,
            call.services.clock,
            call.services.config,
            GROUPS,
            call.uuid,
            call.caller,
            include_trash=True,
        )
    if found["group_class"] != GroupClass.ROLE:
        return await trash_group(call)
    _check_seeded(call, found["uuid"])
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, call.services.clock, call.services.config, GROUPS, call.uuid, call.caller
        )
        await authorization.check_writable(tx, GROUPS, old, call.caller, Level.MANAGE)
        check_match(call, old)
        # Made before the removal: afterwards the caller has no level on it.
        shown = await present_one(tx, call.services.config, call.caller, GROUPS, old)
        await generic.remove(tx, call.services, GROUPS, old, user_uuid=call.caller.user_uuid)
    return ApiResponse(body=shown)


async def trash_group(call: ApiCall) -> ApiResponse:
    """Put a group in the trash, with all that it owns."""
    return await _change(call, lambda *_: {"is_trashed": True})


async def untrash_group(call: ApiCall) -> ApiResponse:
    """Take a group out of the trash."""
    return await _change(call, _out_of_the_trash)


async def delete_expired(services: ApiServices) -> int:
    """Delete the groups whose time in the trash is over, and the records that they own, some in
    each transaction: others write between two. Returns the number of records.

    A server that ends meanwhile goes on with its next sweep, as what is left is still expired.
    """
    deleted = 0
    while True:
        async with services.database.writing() as tx:
            unit = UnitOfWork(tx, services, user_uuid=services.ids.system_user)
            left = AT_ONCE
            for uuid in await upkeep.expired_groups(tx, services.clock.now()):
                left -= await _delete_some(unit, uuid, most=left)
                if left <= 0:
                    break
            await unit.settle()
        deleted += AT_ONCE - left
        if left > 0:
            return deleted


async def follow_trashed(tx: Transaction, services: ApiServices, uuids: Sequence[str]) -> None:
    """Compute the priorities of the containers of projects that have gone into the trash."""
    unit = UnitOfWork(tx, services, user_uuid=services.ids.system_user)
    for uuid in uuids:
        await priorities.stale_in(unit, uuid)
    await unit.settle()


async def _change(call: ApiCall, wanted: _Wanted) -> ApiResponse:
    select = check_select(call.params.get("select"), GROUPS)
    services, caller = call.services, call.caller
    async with services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, services.clock, services.config, GROUPS, call.uuid, caller, include_trash=True
        )
        check_match(call, old)
        given = wanted(call, GROUPS, old)
        new = {**old, **given, **generic.trash_times(services.clock, services.config, old, given)}
        if new["group_class"] == GroupClass.ROLE:
            # Roles stay with the system user, whatever a client sends back.
            new["owner_uuid"] = old["owner_uuid"]
        if new != old:
            await _check_change(tx, call, new, old)
            await _settle_name(tx, call, new)
            new = await generic.apply(tx, services, GROUPS, old, new, user_uuid=caller.user_uuid)
            # Another owner or trash changes which requests count below the group.
            if any(old[name] != new[name] for name in ("trash_at", "owner_uuid")):
                unit = UnitOfWork(tx, services, user_uuid=caller.user_uuid)
                await priorities.stale_in(unit, new["uuid"])
                await unit.settle()
        return ApiResponse(body=await present_one(tx, services.config, caller, GROUPS, new, select))


async def _check_change(tx: Transaction, call: ApiCall, new: Record, old: Record) -> None:
    level = await authorization.level_of(tx, GROUPS, old, call.caller)
    if level < Level.WRITE:
        raise authorization.lacking(old["uuid"], Level.WRITE)
    above = await permissions.group_flags(tx, old["owner_uuid"])
    _check(call, new, old, level=level, frozen_above=above.frozen)
    # After the rules of the record itself: those need no further query.
    if new["owner_uuid"] != old["owner_uuid"]:
        await authorization.check_move(tx, call, old, new["owner_uuid"])
    if new["trash_at"] is not None and old["trash_at"] is None:
        _check_seeded(call, old["uuid"])
        # A frozen project below would go into the trash with this one.
        below = [uuid for uuid, _ in await permissions.below(tx, old["uuid"])]
        flags = await permissions.flags_by_group(tx, below)
        for uuid in below:
            if uuid in flags and flags[uuid].frozen:
                raise group_rules.frozen_refusal(uuid)


def _check(
    call: ApiCall, new: Record, old: Record | None, *, level: int, frozen_above: bool
) -> None:
    group_rules.check_group(
        new, old, slashes=bool(call.services.config.Collections.ForwardSlashNameSubstitution)
    )
    if new["group_class"] == GroupClass.FILTER:
        mixed_lists.check_group_filters(new["properties"]["filters"], CONTENT)
    policy = read_container_policy(new["container_policy"])
    weight = _weight(new)
    if (policy or weight is not None) and new["group_class"] != GroupClass.PROJECT:
        raise Invalid("container_policy: only projects have one")
    # Else everyone would raise the weight of the own project.
    if weight != (_weight(old) if old else None):
        access.check_admin(call.caller, "set the share of a project")
    group_rules.check_freezing(
        new, old, user_uuid=call.caller.user_uuid, level=level, frozen_above=frozen_above
    )


def _weight(group: Record) -> float | None:
    """The weight of a project's share; None where it has none. Raises Invalid."""
    weight = (group["container_policy"] or {}).get(SHARE)
    return fair_share.read_weight(f"container_policy.{SHARE}", weight)


def _check_seeded(call: ApiCall, uuid: str) -> None:
    cluster = call.services.config.ClusterID
    seeded = (ids.system_group, ids.all_users, ids.anonymous_group, ids.public_favorites)
    if uuid in [name(cluster) for name in seeded]:
        raise Invalid(f"uuid: {uuid} is part of every installation and stays")


def _out_of_the_trash(call: ApiCall, kind: RecordType, old: Record) -> Record:
    if old["trash_at"] is None or (old["delete_at"] or "") <= call.services.clock.now():
        raise Invalid(f"Item is not trashed, cannot untrash {kind.singular} {old['uuid']}")
    return {"is_trashed": False, "trash_at": None}


async def _settle_name(tx: Transaction, call: ApiCall, record: Record) -> None:
    """Check that no other group of the owner has this name; with `ensure_unique_name` make it
    distinct. Raises Invalid.
    """
    # Names in the trash are free for others.
    if record["is_trashed"]:
        return
    owner, name = record["owner_uuid"], record["name"]
    # Within the transaction, so that two calls never get one name.
    same = await records.matching(tx, GROUPS, owner_uuid=owner, name=name, is_trashed=0)
    if all(one["uuid"] == record["uuid"] for one in same):
        return
    if not call.params.get("ensure_unique_name"):
        raise Invalid(
            "name: duplicate key value violates unique constraint: "
            f"Key (owner_uuid, name)=({owner}, {name}) already exists"
        )
    record["name"] = f"{name[:237]} ({record['uuid'][-15:]})"


async def _delete_some(unit: UnitOfWork, group_uuid: str, *, most: int) -> int:
    """Delete a group with all that is in it, or a part of that: at most so many records, the
    innermost first; their number.
    """
    tx, services, user = unit.tx, unit.services, unit.user_uuid
    left = most
    # The innermost first: an owner must not go before the records that it owns.
    for uuid, _ in reversed(await permissions.below(tx, group_uuid)):
        for kind in _OWNED:
            for record in await records.owned(tx, kind, uuid, most=left):
                await generic.remove(tx, services, kind, record, user_uuid=user)
                left -= 1
                if kind is REQUESTS and record["container_uuid"] is not None:
                    unit.stale([record["container_uuid"]])
                    # A container that only this request wanted is cancelled.
                    await unit.abandon(record["container_uuid"])
            if left <= 0:
                return most
        inner = await records.get(tx, GROUPS, uuid)
        if inner is not None:
            await generic.remove(tx, services, GROUPS, inner, user_uuid=user)
            left -= 1
        if left <= 0:
            return most
    return most - left


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
        parts = _held(
            holder,
            mixed_lists.split(
                asked, CONTENT, max_limit=limits.MaxItemsPerResponse, beside=_beside(include)
            ),
        )
        where = _place(call, holder)
        queries = [
            await generic.narrowed(
                tx, part.kind, _restricted(call, part, where, include), call.caller
            )
            for part in parts
        ]
        first = parts[0].query if parts else Query()
        kinds = [part.kind for part in parts]
        found, available = await _page(
            tx, tx.dialect, kinds, queries, first, limits.MaxIndexDatabaseRead
        )
        rows = [row for _, rows in found for row in rows]
        included = await find_included(tx, call, rows, include, select=call.params.get("select"))
        items = await _shown(tx, call, found, parts)
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
    found: list[tuple[RecordType, list[Record]]] = []
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
        found.append((kind, rows))
    return found, available


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


def _include(given: JSON) -> tuple[str, ...]:
    names = [part.strip() for part in given.split(",")] if isinstance(given, str) else given or []
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


def _held(holder: Record | None, parts: Sequence[MixedListPart]) -> tuple[MixedListPart, ...]:
    """The parts of the list. For a filter group its filters are added, and types that they exclude
    are left out.
    """
    if holder is None or holder.get("group_class") != GroupClass.FILTER:
        return tuple(parts)
    own = {
        part.kind.plural: part.query.where
        for part in mixed_lists.split(
            {"filters": holder["properties"]["filters"]}, CONTENT, max_limit=0
        )
    }
    return tuple(
        MixedListPart(
            part.kind, replace(part.query, where=(*part.query.where, *own[part.kind.plural]))
        )
        for part in parts
        if part.kind.plural in own
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
    call: ApiCall, part: MixedListPart, where: Sequence[Expression], include: tuple[str, ...]
) -> Query:
    kind, query = part.kind, part.query
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
    found: Sequence[tuple[RecordType, list[Record]]],
    parts: Sequence[MixedListPart],
) -> list[Record]:
    selected: Mapping[str, tuple[str, ...] | None] = {
        part.kind.plural: part.query.select for part in parts
    }
    items: list[Record] = []
    for kind, rows in found:
        names = selected[kind.plural] or kind.listed
        items += await present(tx, call.services.config, call.caller, kind, rows, names)
    return items


HANDLERS: Final = {
    "groups.list": list_groups,
    "groups.get": get_group,
    "groups.create": create_group,
    "groups.update": update_group,
    "groups.delete": delete_group,
    "groups.trash": trash_group,
    "groups.untrash": untrash_group,
    "groups.contents": list_contents,
    "groups.list_contents": list_contents,
    "groups.shared": list_shared,
}

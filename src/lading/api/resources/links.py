"""Links: named relations, such as tags and names of images; permissions are links too.

An ordinary link needs can_write on its owner, and ends that the caller can read. A permission link,
of class `permission`, goes from a user or a role to what they may read, write or manage. The system
user owns it; only a manager of its head makes, changes and removes it; a second one between the
same ends raises the first to the higher level. Only its name changes. `list_permissions` lists the
permissions that follow from all of them (`computed_permissions`).

Source: docs/spec/api, sections Links, Permissions and Other records.
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.container_access import entering, port_addresses
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import check_match, show
from lading.core import ids
from lading.core.errors import Invalid, NotFound
from lading.core.records import access, permissions
from lading.core.records.access import Principal
from lading.core.records.expressions import Query, SortKey
from lading.core.records.filters import (
    check_filters,
    check_number,
    check_order,
    check_select,
    check_where,
)
from lading.core.records.permissions import CONTAINER_ACCESS, HEADS, LEVELS, NAMES, Level
from lading.core.records.record_types import BY_INFIX, GROUPS, LINKS
from lading.core.records.schema import Record
from lading.core.records.service_records import COMPUTED_PERMISSIONS
from lading.store import permission_queries, records
from lading.store.database import Transaction
from lading.store.permission_queries import PERMISSION

_LAST: Final = ("user_uuid", "target_uuid")
_FIXED: Final = ("link_class", "tail_uuid", "head_uuid", "owner_uuid")


async def list_links(call: ApiCall) -> ApiResponse:
    """A page of links."""
    return await generic.list_records(call, LINKS)


async def get_link(call: ApiCall) -> ApiResponse:
    """One link."""
    return await generic.get_record(call, LINKS)


async def create_link(call: ApiCall) -> ApiResponse:
    """Create a link. If an equal permission exists, it is raised if necessary, and answered."""
    record = generic.new_record(call, LINKS, generic.check_attributes(call, LINKS, None))
    _check(record)
    async with call.services.database.writing() as tx:
        if record["link_class"] == PERMISSION:
            record = await share(tx, call, record)
        elif record["link_class"] == CONTAINER_ACCESS:
            record = await _let_in(tx, call, record)
        else:
            await authorization.check_owner(tx, call, record["owner_uuid"])
            await _check_ends(tx, call, record, {})
            if record["link_class"] == port_addresses.PUBLISHED:
                await port_addresses.check_link(tx, call, record)
            await generic.insert(tx, call, LINKS, record)
    return ApiResponse(body=show(LINKS, record))


async def update_link(call: ApiCall) -> ApiResponse:
    """Change a link; of a permission only the name."""
    select = check_select(call.params.get("select"), LINKS)
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, call.services.clock, call.services.config, LINKS, call.uuid, call.caller
        )
        check_match(call, old)
        new = {**old, **generic.check_attributes(call, LINKS, old)}
        _check(new)
        entering.check_unchanged(old, new)
        # Either class: an ordinary link must not become a permission, nor the other way round.
        if PERMISSION in (old["link_class"], new["link_class"]):
            await check_permission_change(tx, call, old, new)
        else:
            await authorization.check_writable(tx, LINKS, old, call.caller)
            if new["owner_uuid"] != old["owner_uuid"]:
                await authorization.check_owner(tx, call, new["owner_uuid"], old=old["owner_uuid"])
            await _check_ends(tx, call, new, old)
            if new["link_class"] == port_addresses.PUBLISHED:
                await port_addresses.check_link(tx, call, new)
        new = await generic.apply(
            tx, call.services, LINKS, old, new, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body=show(LINKS, new, select))


async def get_permissions(call: ApiCall) -> ApiResponse:
    """All permission links on a record, for a manager of the record. Raises NotFound, Forbidden."""
    kind = BY_INFIX.get(ids.infix_of(call.uuid)) if ids.is_uuid(call.uuid) else None
    if kind is None or kind.infix not in HEADS:
        raise NotFound(
            f"Path not found: {call.uuid[:60]!r} is not the uuid of a record that can be shared"
        )
    async with call.services.database.reading() as tx:
        await authorization.find_readable(
            tx, call.services.clock, call.services.config, kind, call.uuid, call.caller
        )
        await check_manager(tx, call.uuid, call.caller)
        rows = await records.matching(tx, LINKS, head_uuid=call.uuid, link_class=PERMISSION)
    items = [show(LINKS, row) for row in sorted(rows, key=lambda row: str(row["uuid"]))]
    return ApiResponse(body=generic.envelope(LINKS, Query(limit=len(items)), items, len(items)))


async def delete_link(call: ApiCall) -> ApiResponse:
    """Delete a link; its permission ends."""
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, call.services.clock, call.services.config, LINKS, call.uuid, call.caller
        )
        check_match(call, old)
        if old["link_class"] == PERMISSION:
            await check_manager(tx, old["head_uuid"], call.caller)
        else:
            await authorization.check_writable(tx, LINKS, old, call.caller)
        await generic.remove(tx, call.services, LINKS, old, user_uuid=call.caller.user_uuid)
    return ApiResponse(body=show(LINKS, old))


async def _let_in(tx: Transaction, call: ApiCall, record: Record) -> Record:
    """Store a link that lets a user into containers; the one that exists if there is one."""
    link = await entering.add_link(tx, call, record)
    if link is record:
        await generic.insert(tx, call, LINKS, record)
    return link


def _check(record: Record) -> None:
    if not record["link_class"]:
        raise Invalid("link_class: can't be blank")


async def _check_ends(tx: Transaction, call: ApiCall, record: Record, old: Record) -> None:
    for name in ("head_uuid", "tail_uuid"):
        uuid = record[name]
        if uuid is None or uuid == old.get(name):
            continue
        kind = BY_INFIX.get(ids.infix_of(uuid)) if ids.is_uuid(uuid) else None
        # A link may name a content, or a record of another type that is not stored here.
        if ids.is_pdh(uuid) or (kind is not None and not kind.stored):
            continue
        if not await authorization.can_refer(
            tx, call.services.clock, call.services.config, uuid, call.caller
        ):
            raise Invalid(f"{name}: '{uuid}' not found")


async def list_permissions(call: ApiCall) -> ApiResponse:
    """A page of permissions. They are not counted, and clients page by filters."""
    access.check_admin(call.caller, "see everybody's permissions")
    params = call.params
    if params.get("count") not in (None, "none"):
        raise Invalid("count: must be 'none' for computed_permissions")
    if check_number(params, "offset", 0):
        raise Invalid(
            "offset: not for computed_permissions; filter by user_uuid and target_uuid instead"
        )
    limit = min(check_number(params, "limit", 100), call.services.config.API.MaxItemsPerResponse)
    order = {
        sort_key.column: sort_key
        for sort_key in check_order(params.get("order"), COMPUTED_PERMISSIONS, plain=True)
    }
    # Pages by filters need an order that is total: these two name one permission.
    for name in _LAST:
        order.setdefault(name, SortKey(name))
    query = Query(
        where=check_filters(params.get("filters"), COMPUTED_PERMISSIONS)
        + check_where(params.get("where"), COMPUTED_PERMISSIONS),
        order=tuple(order.values()),
        select=check_select(params.get("select"), COMPUTED_PERMISSIONS),
        limit=limit,
    )
    database = call.services.database
    async with database.reading() as tx:
        rows = await permission_queries.computed(tx, tx.dialect, query) if limit else []
    items = [{**row, "kind": COMPUTED_PERMISSIONS.kind} for row in rows]
    body: Record = {
        "kind": f"{COMPUTED_PERMISSIONS.kind}List",
        "etag": "",
        "self_link": "",
        "offset": 0,
        "limit": limit,
    }
    return ApiResponse(body={**body, "items": items, "included": []})


async def share(tx: Transaction, call: ApiCall, record: Record) -> Record:
    """Store a permission link, or raise an equal one. Raises Invalid, Forbidden."""
    level = permissions.level_of(record["name"])
    tail, head = record["tail_uuid"], record["head_uuid"]
    group = await records.get(tx, GROUPS, tail) if isinstance(tail, str) else None
    permissions.check_ends(tail, head, tail_class=group["group_class"] if group else None)
    for name, uuid in (("tail_uuid", tail), ("head_uuid", head)):
        if not await authorization.can_refer(
            tx, call.services.clock, call.services.config, uuid, call.caller
        ):
            raise Invalid(f"{name}: '{uuid}' not found")
    await check_manager(tx, head, call.caller)
    return await grant(tx, call, record, level)


async def grant(tx: Transaction, call: ApiCall, record: Record, level: Level) -> Record:
    """Store a permission link without checks, or raise the link between the same ends."""
    services, user = call.services, call.caller.user_uuid
    ends = {
        "tail_uuid": record["tail_uuid"],
        "head_uuid": record["head_uuid"],
        "link_class": PERMISSION,
    }
    same = await records.matching(tx, LINKS, **ends)
    if same:
        old = same[0]
        # Never lowered: an application that shares again must not take away what an owner gave.
        name = record["name"] if level > LEVELS.get(old["name"], Level.NONE) else old["name"]
        return await generic.apply(tx, services, LINKS, old, {"name": name}, user_uuid=user)
    record = {**record, "owner_uuid": services.ids.system_user}
    await generic.insert(tx, call, LINKS, record)
    return record


async def check_permission_change(tx: Transaction, call: ApiCall, old: Record, new: Record) -> None:
    """Check a change of a permission link. Raises Invalid, Forbidden."""
    await check_manager(tx, old["head_uuid"], call.caller)
    for name in _FIXED:
        if new[name] != old[name]:
            raise Invalid(
                f"{name}: cannot be changed in a permission link; delete it and make another"
            )
    permissions.level_of(new["name"])


async def check_manager(tx: Transaction, head_uuid: str, principal: Principal) -> None:
    """Check that the caller manages the head of a permission. Raises Forbidden."""
    if principal.is_admin:
        return
    kind = BY_INFIX[head_uuid[6:11]]
    head = await records.get(tx, kind, head_uuid)
    if head is None or await authorization.level_of(tx, kind, head, principal) < Level.MANAGE:
        raise authorization.lacking(head_uuid, Level.MANAGE)


async def set_up(tx: Transaction, call: ApiCall, user_uuid: str) -> None:
    """Make a user a member of the role of all users, and visible to its members if
    Users.ActivatedUsersAreVisibleToOthers.
    """
    everybody = ids.all_users(call.services.config.ClusterID)
    await _give(tx, call, user_uuid, everybody, Level.WRITE)
    if call.services.config.Users.ActivatedUsersAreVisibleToOthers:
        await _give(tx, call, everybody, user_uuid, Level.READ)


async def _give(tx: Transaction, call: ApiCall, tail: str, head: str, level: Level) -> None:
    link = {"link_class": PERMISSION, "name": NAMES[level], "tail_uuid": tail, "head_uuid": head}
    await grant(tx, call, generic.new_record(call, LINKS, link), level)


HANDLERS: Final = {
    "links.list": list_links,
    "links.get": get_link,
    "links.create": create_link,
    "links.update": update_link,
    "links.delete": delete_link,
    "computed_permissions.list": list_permissions,
}

"""Groups: projects, roles and filter groups.

- Permissions are updated in the same transaction (`store.permission_queries`). The user who creates
  a role manages it, by a link.
- When the time of a group in the trash is over, it is deleted with all that it owns.

Source: docs/spec/api, sections Records and Groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lading.api import authorization, priorities
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic, links
from lading.api.resources.group_contents import CONTENT, list_contents, list_shared
from lading.api.serializer import check_match, present_one
from lading.api.services import ApiServices
from lading.api.transaction import UnitOfWork
from lading.core import ids
from lading.core.containers.attempts.retry_rules import SHARE, read_container_policy
from lading.core.errors import Invalid
from lading.core.policy import fair_share
from lading.core.records import access, mixed_lists
from lading.core.records import permissions as group_rules
from lading.core.records.container_types import REQUESTS
from lading.core.records.filters import check_select
from lading.core.records.permissions import NAMES, GroupClass, Level
from lading.core.records.record_types import GROUPS, LINKS, LOGS, RECORDS, TOKENS, USERS
from lading.core.records.schema import Record, RecordType
from lading.store import permissions, records, upkeep
from lading.store.cascades import AT_ONCE
from lading.store.database import Transaction
from lading.store.permission_queries import PERMISSION

_OWNED: Final = tuple(
    kind
    for kind in RECORDS
    if kind.stored and kind.owned and kind not in (USERS, GROUPS, TOKENS, LOGS)
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
        group = await authorization.find_readable(
            tx,
            call.services.clock,
            call.services.config,
            GROUPS,
            call.uuid,
            call.caller,
            include_trash=True,
        )
    if group["group_class"] != GroupClass.ROLE:
        return await trash_group(call)
    _check_seeded(call, group["uuid"])
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


async def _change(call: ApiCall, changes_of: _Wanted) -> ApiResponse:
    select = check_select(call.params.get("select"), GROUPS)
    services, caller = call.services, call.caller
    async with services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, services.clock, services.config, GROUPS, call.uuid, caller, include_trash=True
        )
        check_match(call, old)
        changes = changes_of(call, GROUPS, old)
        new = {
            **old,
            **changes,
            **generic.trash_times(services.clock, services.config, old, changes),
        }
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
    if all(row["uuid"] == record["uuid"] for row in same):
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

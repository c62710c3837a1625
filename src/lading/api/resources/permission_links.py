"""Permission links: from a user or a role to what they may read, write or manage.

Source: docs/spec/api, sections Links and Permissions.

The system user owns them. Who can manage the head makes, changes and removes them, and nobody else;
one between the same ends is kept, raised to the higher level. Only their name changes.
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.http import Call
from lading.api.resources import generic
from lading.core import ids
from lading.core.errors import Invalid
from lading.core.records import permissions
from lading.core.records.access import Principal
from lading.core.records.permissions import LEVELS, NAMES, Level
from lading.core.records.record_types import BY_INFIX, GROUPS, LINKS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Transaction
from lading.store.graph import PERMISSION

_FIXED: Final = ("link_class", "tail_uuid", "head_uuid", "owner_uuid")


async def share(tx: Transaction, call: Call, record: Record) -> Record:
    """Store a permission link, or raise the one that is there. Raises Invalid, Forbidden."""
    level = permissions.level_of(record["name"])
    tail, head = record["tail_uuid"], record["head_uuid"]
    group = await records.get(tx, GROUPS, tail) if isinstance(tail, str) else None
    permissions.check_ends(tail, head, tail_class=group["group_class"] if group else None)
    for name, uuid in (("tail_uuid", tail), ("head_uuid", head)):
        if not await authorization.can_refer(tx, call.services, uuid, call.caller):
            raise Invalid(f"{name}: '{uuid}' not found")
    await check_manager(tx, head, call.caller)
    return await grant(tx, call, record, level)


async def grant(tx: Transaction, call: Call, record: Record, level: Level) -> Record:
    """Store a permission link that may be made, or raise the one between the same ends."""
    services, user = call.services, call.caller.user_uuid
    ends = {
        "tail_uuid": record["tail_uuid"],
        "head_uuid": record["head_uuid"],
        "link_class": PERMISSION,
    }
    same = await records.matching(tx, LINKS, **ends)
    if same:
        old = same[0]
        name = record["name"] if level > LEVELS.get(old["name"], Level.NONE) else old["name"]
        return await generic.apply(tx, services, LINKS, old, {"name": name}, user_uuid=user)
    record = {**record, "owner_uuid": services.system_user}
    await generic.insert(tx, call, LINKS, record)
    return record


async def check_change(tx: Transaction, call: Call, old: Record, new: Record) -> None:
    """Whether a permission link may become what it is to be. Raises Invalid, Forbidden."""
    await check_manager(tx, old["head_uuid"], call.caller)
    for name in _FIXED:
        if new[name] != old[name]:
            raise Invalid(
                f"{name}: cannot be changed in a permission link; delete it and make another"
            )
    permissions.level_of(new["name"])


async def check_manager(tx: Transaction, head_uuid: str, principal: Principal) -> None:
    """Whether the caller manages what a permission is about. Raises Forbidden."""
    if principal.is_admin:
        return
    kind = BY_INFIX[head_uuid[6:11]]
    head = await records.get(tx, kind, head_uuid)
    if head is None or await authorization.level_of(tx, kind, head, principal) < Level.MANAGE:
        raise authorization.lacking(head_uuid, Level.MANAGE)


async def set_up(tx: Transaction, call: Call, user_uuid: str) -> None:
    """Make a user a member of the role of all users, and visible to its members if the
    configuration says so.
    """
    everybody = ids.all_users(call.services.config.ClusterID)
    await _give(tx, call, user_uuid, everybody, Level.WRITE)
    if call.services.config.Users.ActivatedUsersAreVisibleToOthers:
        await _give(tx, call, everybody, user_uuid, Level.READ)


async def _give(tx: Transaction, call: Call, tail: str, head: str, level: Level) -> None:
    link = {"link_class": PERMISSION, "name": NAMES[level], "tail_uuid": tail, "head_uuid": head}
    await grant(tx, call, generic.new_record(call, LINKS, link), level)

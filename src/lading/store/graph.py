"""Updates of the permission tables after changes of users, groups and links."""

from __future__ import annotations

from lading.core.records.permissions import HEADS
from lading.core.records.record_types import GROUPS, LINKS, USERS
from lading.core.records.schema import Record, RecordType
from lading.store import permissions, records
from lading.store.database import Transaction

# Fields whose change alters the flags of groups below.
PERMISSION = "permission"
_STANDING = ("trash_at", "frozen_by_uuid")


async def inserted(tx: Transaction, kind: RecordType, record: Record) -> None:
    """Update permissions after an insert."""
    if kind is USERS:
        await permissions.add_user(tx, record["uuid"])
    elif kind is GROUPS:
        await permissions.add_group(tx, record["uuid"], record["owner_uuid"])
    elif kind is LINKS:
        await _linked(tx, record)


async def changed(tx: Transaction, kind: RecordType, old: Record, new: Record) -> None:
    """Update permissions after an update."""
    if kind is GROUPS:
        # Moving recomputes the flags too.
        if old["owner_uuid"] != new["owner_uuid"]:
            await permissions.move_group(tx, new["uuid"])
        elif any(old[name] != new[name] for name in _STANDING):
            await permissions.stand_group(tx, new["uuid"])
    elif kind is LINKS:
        await _linked(tx, new)


async def removed(tx: Transaction, kind: RecordType, record: Record) -> None:
    """Update permissions after a delete; the permission links of the record were deleted before."""
    if kind is LINKS:
        await _linked(tx, record)
    elif kind in (USERS, GROUPS):
        await permissions.forget(tx, record["uuid"])


async def links_of(tx: Transaction, kind: RecordType, uuid: str) -> list[Record]:
    """The permission links with this record as tail or head, as full records."""
    if kind.infix not in HEADS:
        return []
    found = await records.matching(tx, LINKS, head_uuid=uuid, link_class=PERMISSION)
    if kind in (USERS, GROUPS):
        found += await records.matching(tx, LINKS, tail_uuid=uuid, link_class=PERMISSION)
    return found


async def _linked(tx: Transaction, link: Record) -> None:
    if link["link_class"] == PERMISSION:
        await permissions.change_link(tx, link["tail_uuid"], link["head_uuid"])

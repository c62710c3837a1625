"""What a change of a record means for permissions: called with each, for the few types that are part of the graph."""

from __future__ import annotations

from lading.core.permissions import HEADS
from lading.core.records import GROUPS, LINKS, USERS
from lading.core.schema import Record, RecordType
from lading.store import permissions, records
from lading.store.database import Transaction

PERMISSION = "permission"
_STANDING = ("trash_at", "frozen_by_uuid")


async def inserted(tx: Transaction, kind: RecordType, record: Record) -> None:
    """A record was stored."""
    if kind is USERS:
        await permissions.add_user(tx, record["uuid"])
    elif kind is GROUPS:
        await permissions.add_group(tx, record["uuid"], record["owner_uuid"])
    elif kind is LINKS:
        await _linked(tx, record)


async def changed(tx: Transaction, kind: RecordType, old: Record, new: Record) -> None:
    """A record was changed."""
    if kind is GROUPS:
        if old["owner_uuid"] != new["owner_uuid"]:
            await permissions.move_group(tx, new["uuid"])
        elif any(old[name] != new[name] for name in _STANDING):
            await permissions.stand_group(tx, new["uuid"])
    elif kind is LINKS:
        await _linked(tx, new)


async def removed(tx: Transaction, kind: RecordType, record: Record) -> None:
    """A record was deleted; its permission links before it."""
    if kind is LINKS:
        await _linked(tx, record)
    elif kind in (USERS, GROUPS):
        await permissions.forget(tx, record["uuid"])


async def links_of(tx: Transaction, kind: RecordType, uuid: str) -> list[Record]:
    """The permission links that a record is an end of, whole."""
    if kind.infix not in HEADS:
        return []
    found = await records.matching(tx, LINKS, head_uuid=uuid, link_class=PERMISSION)
    if kind in (USERS, GROUPS):
        found += await records.matching(tx, LINKS, tail_uuid=uuid, link_class=PERMISSION)
    return found


async def _linked(tx: Transaction, link: Record) -> None:
    if link["link_class"] == PERMISSION:
        await permissions.change_link(tx, link["tail_uuid"], link["head_uuid"])

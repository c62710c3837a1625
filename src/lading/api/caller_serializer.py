"""Records as the caller sees them, with what depends on who looks: levels, membership, the public
part of users.

`can_write`, `can_manage` and `writable_by` of users and groups are the caller's; `is_invited` says
whether a user was set up. Of other users everybody but admins sees what `access.PUBLIC` lists.
Source: docs/spec/api, sections Users and Permissions.
"""

from __future__ import annotations

from collections.abc import Sequence

from lading.api.serializer import show_all, show_row
from lading.api.services import Services
from lading.core import ids
from lading.core.records.access import PUBLIC, Principal
from lading.core.records.permissions import Level
from lading.core.records.record_types import GROUPS, USERS
from lading.core.records.schema import Record, RecordType
from lading.store import permission_queries, permissions
from lading.store.database import Transaction


async def present(
    tx: Transaction,
    services: Services,
    principal: Principal,
    kind: RecordType,
    rows: Sequence[Record],
    names: tuple[str, ...] | None,
    *,
    distinct: bool = False,
) -> list[Record]:
    """Rows of one type as answers: `names`, or all visible fields. Rows made distinct have what was
    selected only.

    The rows have the same fields; they are given away, as they may become the answers.
    """
    wanted = kind.visible if names is None else names
    if kind in (USERS, GROUPS) and not distinct:
        await _decorate(tx, services, principal, kind, rows)
    if distinct:
        return [show_row(kind, row, wanted, distinct=True) for row in rows]
    shown = show_all(kind, rows, wanted)
    if kind is USERS and not principal.is_admin:
        shown = [
            one
            if row["uuid"] == principal.user_uuid
            else {name: one[name] for name in one if name in PUBLIC}
            for row, one in zip(rows, shown, strict=True)
        ]
    return shown


async def present_one(
    tx: Transaction,
    services: Services,
    principal: Principal,
    kind: RecordType,
    record: Record,
    names: tuple[str, ...] | None = None,
) -> Record:
    """One record as an answer."""
    return (await present(tx, services, principal, kind, [record], names))[0]


async def _decorate(
    tx: Transaction,
    services: Services,
    principal: Principal,
    kind: RecordType,
    rows: Sequence[Record],
) -> None:
    """Add the derived fields to rows that have their uuid, and `owner_uuid` if that was asked
    for.
    """
    uuids = [row["uuid"] for row in rows]
    levels = (
        {}
        if principal.is_admin
        else await permission_queries.levels_on(tx, principal.user_uuid, uuids)
    )
    everybody = ids.all_users(services.config.ClusterID)
    members = await permission_queries.members_of(tx, everybody, uuids) if kind is USERS else set()
    for row in rows:
        uuid = row["uuid"]
        level = (
            Level.MANAGE
            if principal.is_admin or uuid == principal.user_uuid
            else levels.get(uuid, Level.NONE)
        )
        frozen = kind is GROUPS and (await permissions.standing(tx, uuid)).frozen
        row["can_write"] = level >= Level.WRITE and not frozen
        row["can_manage"] = level >= Level.MANAGE
        owners = [row["owner_uuid"]] if "owner_uuid" in row else []
        row["writable_by"] = (
            list(dict.fromkeys([*owners, principal.user_uuid])) if row["can_write"] else []
        )
        if kind is USERS:
            row["is_invited"] = bool(row.get("is_active")) or uuid in members

"""Authorization: the permissions of a principal on records.

A record that the caller cannot read does not exist (404); one that can be read but not written is
Forbidden (403); an owner or a reference that cannot be read is Invalid (422). In a frozen project
nobody writes. The check is made in the transaction that acts on the record.

Source: docs/spec/api, sections Records, Permissions and Resolving and reuse.
"""

from __future__ import annotations

from collections.abc import Iterable

from lading.api.http import ApiCall
from lading.api.server.identifiers import ApiClock
from lading.config.site import Config
from lading.core import ids
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.ids import is_group
from lading.core.records import access
from lading.core.records import permissions as group_rules
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import Among, Column, Query
from lading.core.records.permissions import NAMES, GroupClass, Level, check_acyclic
from lading.core.records.record_types import (
    BY_INFIX,
    COLLECTIONS,
    GROUPS,
    LINKS,
    LOGS,
    TOKENS,
    USERS,
)
from lading.core.records.schema import JSON, Record, RecordType, Type
from lading.core.records.service_records import WEBHOOKS
from lading.store import contents, permission_queries, permissions, records
from lading.store.database import Transaction

# Uuids of one query: placeholders of one statement.
_BATCH = 500
_BY_CONDITION = (CONTAINERS, LINKS, LOGS, USERS, GROUPS, WEBHOOKS)


async def find_readable(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    kind: RecordType,
    uuid: str,
    principal: Principal,
    *,
    include_trash: bool = False,
    raw: bool = False,
) -> Record:
    """The record, if the caller can read it and it is in no project in the trash. Raises NotFound.

    With `raw` its nested values are JSON texts, to be answered unchanged.
    """
    roles = config.Users.RoleGroupsVisibleToAll
    conditions = access.readable(
        kind,
        principal,
        now=clock.now(),
        include_trash=include_trash,
        roles=roles,
        few=True,
    )
    where = (records.equals(kind, "uuid", uuid), *conditions)
    found = await records.find(tx, tx.dialect, kind, where, limit=1, raw=raw)
    if not found:
        raise missing(kind, uuid)
    return found[0]


def missing(kind: RecordType, uuid: str) -> NotFound:
    """The error for a record that is not there, or that the caller cannot read."""
    return NotFound(f"Path not found: no {kind.singular} {uuid[:60]!r}")


async def can_read(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    kind: RecordType,
    record: Record,
    principal: Principal,
    *,
    include_trash: bool = False,
) -> bool:
    """Whether the caller, or one of the readers beside it, can read a record that exists."""
    for reader in principal.everybody if principal.readers else (principal,):
        if await _can_read(tx, clock, config, kind, record, reader, include_trash=include_trash):
            return True
    return False


async def _can_read(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    kind: RecordType,
    record: Record,
    principal: Principal,
    *,
    include_trash: bool,
) -> bool:
    if not await _is_present(tx, clock, kind, record, principal, include_trash=include_trash):
        return False
    user = principal.user_uuid
    if principal.is_admin or (kind is USERS and record["uuid"] == user):
        return True
    # The system user owns containers, and may own the token of a dispatcher.
    if kind.owned and record["owner_uuid"] == user and kind is not CONTAINERS:
        return True
    # A token is its owner's alone: no permission on a project or a role shows one.
    if kind is TOKENS:
        return False
    if kind not in _BY_CONDITION:
        return await permission_queries.level_on(tx, user, record["uuid"], record["owner_uuid"]) > 0
    roles = config.Users.RoleGroupsVisibleToAll
    conditions = access.readable(kind, principal, now=clock.now(), include_trash=True, roles=roles)
    # The rules of these kinds are conditions in SQL: they are asked of the one record.
    where = (records.equals(kind, "uuid", record["uuid"]), *conditions)
    return await records.exists(tx, tx.dialect, kind, where)


async def present(
    tx: Transaction, clock: ApiClock, hashes: Iterable[str], acting: Principal
) -> set[str]:
    """The hashes of which the principal can read the content."""
    reader = reader_of(acting)
    pdhs = sorted({hash for hash in hashes if ids.is_pdh(hash)})
    return await contents.present(tx, pdhs, clock.now(), reader=reader)


async def readable_uuids(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    kind: RecordType,
    uuids: Iterable[str],
    principal: Principal,
) -> set[str]:
    """The uuids among `uuids` of records of a type that the principal can read."""
    candidates, matches = tuple(dict.fromkeys(uuids)), set[str]()
    roles = config.Users.RoleGroupsVisibleToAll
    readable = access.readable(kind, principal, now=clock.now(), roles=roles, few=True)
    for at in range(0, len(candidates), _BATCH):
        some = Among(Column("uuid", Type.STRING), candidates[at : at + _BATCH])
        query = Query(where=(some, *readable), select=("uuid",), limit=_BATCH)
        rows = await records.search(tx, tx.dialect, kind, query)
        matches |= {str(row["uuid"]) for row in rows}
    return matches


def reader_of(acting: Principal) -> str | None:
    """The user whose rights count; None for administrators, who read everything."""
    return None if acting.is_admin else acting.user_uuid


async def check_content_scope(
    tx: Transaction,
    clock: ApiClock,
    principal: Principal,
    pdh: str,
    attribute: str,
    *,
    uuid: str = "",
) -> None:
    """Check that the scopes of the token include a GET of this content, by its hash or by the uuid
    of a readable collection.

    `uuid` is a collection that is known to be readable and to have the content. Raises Forbidden
    naming `attribute`, the attribute that asked for the content, whether the content exists or not.
    """
    if access.covers_get(principal, COLLECTIONS, pdh, *([uuid] if uuid else [])):
        return
    where = (
        records.equals(COLLECTIONS, "portable_data_hash", pdh),
        *access.readable(COLLECTIONS, principal, now=clock.now()),
    )
    collections = await records.find(tx, tx.dialect, COLLECTIONS, where)
    if not any(
        access.covers_get(principal, COLLECTIONS, collection["uuid"]) for collection in collections
    ):
        raise Forbidden(
            f"Forbidden: {attribute}: the scopes of this token do not include "
            f"GET /arvados/v1/collections/{uuid or pdh}"
        )


async def can_refer(
    tx: Transaction, clock: ApiClock, config: Config, uuid: JSON, principal: Principal
) -> bool:
    """Whether a record may refer to another one: the caller can read that one, and it is not in the
    trash.
    """
    kind = BY_INFIX.get(ids.infix_of(uuid)) if isinstance(uuid, str) and ids.is_uuid(uuid) else None
    if kind is None or not kind.stored:
        return False
    record = await records.get(tx, kind, uuid)
    return record is not None and await can_read(tx, clock, config, kind, record, principal)


async def check_writable(
    tx: Transaction,
    kind: RecordType,
    record: Record,
    principal: Principal,
    level: Level = Level.WRITE,
) -> None:
    """Check that the caller may change a record that it can read. Raises Forbidden."""
    place = record["uuid"] if kind is GROUPS else record["owner_uuid"]
    # Before the level: also an admin must unfreeze a project first.
    if is_group(place) and (await permissions.group_flags(tx, place)).frozen:
        raise group_rules.frozen_refusal(record["uuid"])
    if await level_of(tx, kind, record, principal) < level:
        raise lacking(record["uuid"], level)


def lacking(uuid: str, level: Level) -> Forbidden:
    """The error for a caller without a permission level on a record."""
    return Forbidden(f"Forbidden: {uuid}: you lack {NAMES[level]}; ask a user who manages it")


async def level_of(tx: Transaction, kind: RecordType, record: Record, principal: Principal) -> int:
    """The caller's level on a record."""
    user = principal.user_uuid
    if (
        principal.is_admin
        or record["owner_uuid"] == user
        or (kind is USERS and record["uuid"] == user)
    ):
        return Level.MANAGE
    return await permission_queries.level_on(tx, user, record["uuid"], record["owner_uuid"])


async def check_owner(
    tx: Transaction, call: ApiCall, owner_uuid: JSON, *, old: str | None = None
) -> None:
    """Check that the caller may make `owner_uuid` the owner of a record, whose owner is `old` if it
    has one.

    Raises Invalid when it is no user or project that the caller can read, Forbidden without
    can_write on both.
    """
    caller = call.caller
    if old is not None and not caller.is_admin and old != caller.user_uuid:
        # Both ends of a move: what is taken from an owner is lost to those who read it there.
        await _check_level(tx, caller, old)
    await check_owner_for(tx, call.services.clock, call.services.config, caller, owner_uuid)


async def check_owner_for(
    tx: Transaction, clock: ApiClock, config: Config, caller: Principal, owner_uuid: JSON
) -> None:
    """Check that `principal`, not the caller itself, may give a record to an owner; see
    `check_owner`.
    """
    if owner_uuid == caller.user_uuid:
        return
    kind = (
        BY_INFIX.get(ids.infix_of(owner_uuid))
        if isinstance(owner_uuid, str) and ids.is_uuid(owner_uuid)
        else None
    )
    if kind not in (USERS, GROUPS):
        raise Invalid(
            f"owner_uuid: {str(owner_uuid)[:60]!r} is not the uuid of a user or a project"
        )
    try:
        owner = await find_readable(tx, clock, config, kind, owner_uuid, caller)
    except NotFound:
        # The same words for what is not there and for what may not be read.
        raise Invalid(f"owner_uuid: '{owner_uuid}' not found") from None
    if kind is GROUPS:
        await _check_project(tx, owner)
    if not caller.is_admin:
        await _check_level(tx, caller, owner_uuid)


async def _check_project(tx: Transaction, owner: Record) -> None:
    uuid = owner["uuid"]
    if owner["group_class"] != GroupClass.PROJECT:
        raise Invalid(
            f"owner_uuid: {uuid} is a {owner['group_class']} group, which cannot own anything"
        )
    if (await permissions.group_flags(tx, uuid)).frozen:
        raise group_rules.frozen_refusal(uuid)


async def check_move(tx: Transaction, call: ApiCall, group: Record, owner_uuid: str) -> None:
    """Check that a group may move to another owner. Raises Invalid when it would own itself, and as
    `check_owner`.
    """
    await check_owner(tx, call, owner_uuid, old=group["owner_uuid"])
    check_acyclic(group["uuid"], await permission_queries.owners_above(tx, owner_uuid))


async def _check_level(tx: Transaction, principal: Principal, owner_uuid: str) -> None:
    if await permission_queries.level_in(tx, principal.user_uuid, owner_uuid) < Level.WRITE:
        raise Forbidden(f"Forbidden: owner_uuid: you may not write records of {owner_uuid}")


async def _is_present(
    tx: Transaction,
    clock: ApiClock,
    kind: RecordType,
    record: Record,
    principal: Principal,
    *,
    include_trash: bool,
) -> bool:
    """Whether the record is in no project in the trash, or the call includes trashed records."""
    place = record["uuid"] if kind is GROUPS else record["owner_uuid"]
    if place == principal.user_uuid or not is_group(place):
        return True
    flags = await permissions.group_flags(tx, place)
    if flags.trash_at is None or flags.trash_at > clock.now():
        return True
    # A frozen project in the trash is shown to admins alone, who can restore it.
    return include_trash and (principal.is_admin or not flags.frozen)

"""Records in responses: their visible fields with the computed ones, their kind and etag.

Hidden fields are left out and derived fields are added; `present` adds first the fields of users
and groups that depend on the caller. Source: docs/spec/api, sections Records, Lists, Permissions
and Order and select.
"""

from __future__ import annotations

import hashlib
from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Final

import msgspec
from msgspec import Raw

from lading.api.http import ApiCall
from lading.config.site import Config
from lading.core import ids
from lading.core.errors import (
    from_status,
)
from lading.core.records.access import PUBLIC, Principal
from lading.core.records.permissions import Level
from lading.core.records.record_types import COLLECTIONS, GROUPS, LINKS, LOGS, USERS, kind_of
from lading.core.records.schema import JSON, Record, RecordType
from lading.store import permission_queries, permissions
from lading.store.database import Transaction

_Derive = Callable[[Record], JSON]
# Fields that depend on the caller are added by `caller_serializer`.
_BY_LEVEL: Final[Mapping[str, tuple[tuple[str, ...], _Derive]]] = {
    "writable_by": (("owner_uuid",), lambda record: record["writable_by"]),
    "can_write": (("uuid",), lambda record: record["can_write"]),
    "can_manage": (("uuid",), lambda record: record["can_manage"]),
}
_DERIVED: Final[Mapping[str, Mapping[str, tuple[tuple[str, ...], _Derive]]]] = {
    LINKS.plural: {
        "head_kind": (("head_uuid",), lambda record: kind_of(record["head_uuid"])),
        "tail_kind": (("tail_uuid",), lambda record: kind_of(record["tail_uuid"])),
    },
    LOGS.plural: {"object_kind": (("object_uuid",), lambda record: kind_of(record["object_uuid"]))},
    USERS.plural: {
        "full_name": (
            ("first_name", "last_name"),
            lambda record: f"{record['first_name'] or ''} {record['last_name'] or ''}".strip(),
        ),
        "is_invited": (("is_active",), lambda record: record["is_invited"]),
        **_BY_LEVEL,
    },
    GROUPS.plural: _BY_LEVEL,
    COLLECTIONS.plural: {
        "unsigned_manifest_text": (("manifest_text",), lambda record: record["manifest_text"]),
    },
}


def needed(kind: RecordType, names: tuple[str, ...]) -> tuple[str, ...]:
    """The stored fields that the derived fields among `names` are computed from."""
    derived = _DERIVED.get(kind.plural, {})
    fields = {"uuid": None, "modified_at": None}
    for name in names:
        if name in derived:
            fields |= dict.fromkeys(derived[name][0])
    if kind is LOGS:
        fields["former_owner_uuid"] = None
    return tuple(fields)


def etag(record: Record) -> str:
    """A text that changes whenever the record does."""
    return etag_of(record["modified_at"], record["uuid"])


def etag_of(modified_at: str, uuid: str) -> str:
    """The etag of the record with this uuid and time of its last change."""
    # Each change has a later `modified_at`; the content need not be hashed.
    return hashlib.md5(f"{modified_at}{uuid}".encode(), usedforsecurity=False).hexdigest()[:25]


def check_match(call: ApiCall, record: Record) -> None:
    """Refuse a change of a record that is another one than the caller has read: the header
    `If-Match` names none of its etags. Raises RequestError (412).

    For the transaction that changes the record.
    """
    condition = call.headers.get("if-match", "").strip()
    # An etag may be sent with or without quotes, and as one of several (RFC 9110, 13.1.1).
    etags = (quoted.strip().strip('"') for quoted in condition.split(","))
    if condition and condition != "*" and etag(record) not in etags:
        raise from_status(412, f"{record['uuid']}: it was changed meanwhile; read it again")


def show(kind: RecordType, record: Record, names: tuple[str, ...] | None = None) -> Record:
    """The record as an answer: `names`, or all visible fields; kind and etag always."""
    wanted = kind.visible if names is None else names
    shown: Record = {name: record[name] for name in wanted if name in record}
    for name, (_, derive) in _DERIVED.get(kind.plural, {}).items():
        if name in wanted:
            shown[name] = derive(record)
    if kind is COLLECTIONS and "name" in shown:
        shown["name"] = shown["name"] or ""
    shown["kind"] = kind.kind
    shown["etag"] = etag(record)
    return shown


def show_all(kind: RecordType, rows: Sequence[Record], names: tuple[str, ...]) -> list[Record]:
    """The rows as answers, as `show` makes them. The rows must have the same fields; they may be
    changed and become the answers.
    """
    if not rows or not is_plain(kind):
        return [show(kind, row, names) for row in rows]
    # The same for all rows of a query, so it is found once.
    surplus = rows[0].keys() - set(names)
    for row in rows:
        tag = etag(row)
        for name in surplus:
            del row[name]
        row["kind"] = kind.kind
        row["etag"] = tag
    return list(rows)


def is_plain(kind: RecordType) -> bool:
    """Whether records are shown as they are stored, with their kind and etag."""
    return kind.plural not in _DERIVED


def show_texts(kind: RecordType, texts: Iterable[tuple[str, str, str]]) -> Raw:
    """A JSON list of plain records, each from the text of its members, its uuid and
    `modified_at`.
    """
    items = (
        f'{{{members},"kind":"{kind.kind}","etag":"{etag_of(modified_at, uuid)}"}}'
        for members, uuid, modified_at in texts
    )
    return Raw(f"[{','.join(items)}]")


def only(shown: Record, names: tuple[str, ...]) -> Record:
    """The selected attributes of a shown record, with its kind and etag."""
    wanted = {*names, "kind", "etag"}
    return {name: value for name, value in shown.items() if name in wanted}


def show_row(kind: RecordType, row: Record, names: tuple[str, ...], *, distinct: bool) -> Record:
    """One item of a list. A row of a distinct list has only the selected attributes."""
    return (
        {name: row[name] for name in names if name in row} if distinct else show(kind, row, names)
    )


async def present(
    tx: Transaction,
    config: Config,
    principal: Principal,
    kind: RecordType,
    rows: Sequence[Record],
    names: tuple[str, ...] | None,
    *,
    distinct: bool = False,
) -> list[Record]:
    """Rows of one type as answers: `names`, or all visible fields; rows of a distinct list have
    only the selected ones. The rows must have the same fields; they may be changed and become the
    answers.
    """
    shown_names = kind.visible if names is None else names
    if kind in (USERS, GROUPS) and not distinct:
        await _decorate(tx, config, principal, kind, rows)
    if distinct:
        return [show_row(kind, row, shown_names, distinct=True) for row in rows]
    if kind is LOGS:
        await _cut(tx, principal, rows)
    shown = show_all(kind, rows, shown_names)
    if kind is USERS and not principal.is_admin:
        shown = [
            record
            if row["uuid"] == principal.user_uuid
            # Of other users only what a directory of people needs.
            else {name: record[name] for name in record if name in PUBLIC}
            for row, record in zip(rows, shown, strict=True)
        ]
    return shown


async def _cut(tx: Transaction, principal: Principal, rows: Sequence[Record]) -> None:
    """Take the former attributes out of log rows of records that came from a place whose records
    the caller cannot read.
    """
    moves = [row for row in rows if row.get("former_owner_uuid") and "properties" in row]
    readable: dict[str, bool] = {}
    for row in moves:
        owner = row["former_owner_uuid"]
        if owner not in readable:
            readable[owner] = await _may_look_into(tx, principal, owner)
        if not readable[owner]:
            found = row["properties"]
            properties = msgspec.json.decode(found) if isinstance(found, msgspec.Raw) else found
            row["properties"] = {
                name: value for name, value in properties.items() if name != "old_attributes"
            }


async def _may_look_into(tx: Transaction, principal: Principal, owner_uuid: str) -> bool:
    for reader in principal.everybody:
        if reader.is_admin or owner_uuid == reader.user_uuid:
            return True
        if await permission_queries.level_in(tx, reader.user_uuid, owner_uuid):
            return True
    return False


async def present_one(
    tx: Transaction,
    config: Config,
    principal: Principal,
    kind: RecordType,
    record: Record,
    names: tuple[str, ...] | None = None,
) -> Record:
    """One record as an answer."""
    return (await present(tx, config, principal, kind, [record], names))[0]


async def _levels(tx: Transaction, principal: Principal, uuids: Sequence[str]) -> Mapping[str, int]:
    """The caller's levels on records. Admins manage all, and everybody manages himself."""
    if principal.is_admin:
        return dict.fromkeys(uuids, Level.MANAGE)
    found = await permission_queries.levels_on(tx, principal.user_uuid, uuids)
    return {**found, principal.user_uuid: Level.MANAGE}


async def _decorate(
    tx: Transaction,
    config: Config,
    principal: Principal,
    kind: RecordType,
    rows: Sequence[Record],
) -> None:
    """Add the fields that are computed, not stored, to rows. The rows have `uuid`, and `owner_uuid`
    if that was selected.
    """
    uuids = [row["uuid"] for row in rows]
    levels = await _levels(tx, principal, uuids)
    everybody = ids.all_users(config.ClusterID)
    members = await permission_queries.members_of(tx, everybody, uuids) if kind is USERS else set()
    for row in rows:
        uuid = row["uuid"]
        level = levels.get(uuid, Level.NONE)
        frozen = kind is GROUPS and (await permissions.group_flags(tx, uuid)).frozen
        row["can_write"] = level >= Level.WRITE and not frozen
        row["can_manage"] = level >= Level.MANAGE
        owners = [row["owner_uuid"]] if "owner_uuid" in row else []
        row["writable_by"] = (
            list(dict.fromkeys([*owners, principal.user_uuid])) if row["can_write"] else []
        )
        if kind is USERS:
            row["is_invited"] = bool(row.get("is_active")) or uuid in members

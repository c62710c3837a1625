"""Records as clients see them: hidden fields are left out, derived fields are added.

Some fields of users and groups depend on the caller; `present` adds them first. Source:
docs/spec/api, sections Records, Lists, Permissions and Order and select.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Raw

from lading.api.services import ApiServices
from lading.core import ids
from lading.core.records.access import PUBLIC, Principal
from lading.core.records.permissions import Level
from lading.core.records.record_types import COLLECTIONS, GROUPS, LINKS, LOGS, USERS, kind_of
from lading.core.records.schema import JSON, Record, RecordType
from lading.store import permission_queries, permissions
from lading.store.database import Transaction

_Derive = Callable[[Record], JSON]
# What depends on who looks is put into the record by `caller_serializer`.
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
    known = _DERIVED.get(kind.plural, {})
    wanted = {"uuid": None, "modified_at": None}
    for name in names:
        if name in known:
            wanted |= dict.fromkeys(known[name][0])
    return tuple(wanted)


def etag(record: Record) -> str:
    """A text that changes whenever the record does."""
    return _etag(record["modified_at"], record["uuid"])


def _etag(modified_at: str, uuid: str) -> str:
    return hashlib.md5(f"{modified_at}{uuid}".encode(), usedforsecurity=False).hexdigest()[:25]


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
        f'{{{members},"kind":"{kind.kind}","etag":"{_etag(modified_at, uuid)}"}}'
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
    services: ApiServices,
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
    services: ApiServices,
    principal: Principal,
    kind: RecordType,
    record: Record,
    names: tuple[str, ...] | None = None,
) -> Record:
    """One record as an answer."""
    return (await present(tx, services, principal, kind, [record], names))[0]


async def _decorate(
    tx: Transaction,
    services: ApiServices,
    principal: Principal,
    kind: RecordType,
    rows: Sequence[Record],
) -> None:
    """Add the derived fields to rows that have `uuid`, and `owner_uuid` if that was selected."""
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
        frozen = kind is GROUPS and (await permissions.group_flags(tx, uuid)).frozen
        row["can_write"] = level >= Level.WRITE and not frozen
        row["can_manage"] = level >= Level.MANAGE
        owners = [row["owner_uuid"]] if "owner_uuid" in row else []
        row["writable_by"] = (
            list(dict.fromkeys([*owners, principal.user_uuid])) if row["can_write"] else []
        )
        if kind is USERS:
            row["is_invited"] = bool(row.get("is_active")) or uuid in members

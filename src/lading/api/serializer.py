"""Records as clients see them: what is hidden is left out, what is derived is added.

Source: docs/spec/api, sections Records, Lists and Order and select.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Raw

from lading.core.records.record_types import COLLECTIONS, GROUPS, LINKS, LOGS, USERS, kind_of
from lading.core.records.schema import JSON, Record, RecordType

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
    """The stored fields from which `names` are shown: those not among them already."""
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
    """As `show` for each of some rows, which have the same fields and are nobody else's: they may
    become the answer.
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
    """Whether its records are shown as they are stored, with their kind and etag."""
    return kind.plural not in _DERIVED


def show_texts(kind: RecordType, texts: Iterable[tuple[str, str, str]]) -> Raw:
    """A list of plain records, each from its members in a text, its uuid and `modified_at`."""
    items = (
        f'{{{members},"kind":"{kind.kind}","etag":"{_etag(modified_at, uuid)}"}}'
        for members, uuid, modified_at in texts
    )
    return Raw(f"[{','.join(items)}]")


def only(shown: Record, names: tuple[str, ...]) -> Record:
    """What was selected of a shown record, with its kind and etag."""
    wanted = {*names, "kind", "etag"}
    return {name: value for name, value in shown.items() if name in wanted}


def show_row(kind: RecordType, row: Record, names: tuple[str, ...], *, distinct: bool) -> Record:
    """One item of a list. Rows made distinct have nothing but what was selected."""
    return (
        {name: row[name] for name in names if name in row} if distinct else show(kind, row, names)
    )

"""Blocks named by collections, including collections in the trash and past versions."""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from lading.store.database import Row, Transaction

# Fields of a Reference, in its order.
_FIELDS = "uuid, manifest_text, replication_desired, storage_classes_desired"


@dataclass(frozen=True, slots=True)
class Reference:
    """One collection: manifest, desired copies and desired storage classes, None where not set."""

    uuid: str
    manifest_text: str
    replication_desired: int | None
    storage_classes_desired: tuple[str, ...]


async def page(tx: Transaction, *, after: str, limit: int) -> list[Reference]:
    """The next collections in the order of their uuids."""
    sql = f"SELECT {_FIELDS} FROM collections WHERE uuid > ? ORDER BY uuid LIMIT ?"
    return [_reference(row) for row in await tx.fetch(sql, (after, limit))]


async def changed(tx: Transaction, *, since: str, after: str, limit: int) -> list[Reference]:
    """The next collections created or changed since an API timestamp."""
    sql = (
        f"SELECT {_FIELDS} FROM collections"
        " WHERE modified_at >= ? AND uuid > ? ORDER BY uuid LIMIT ?"
    )
    return [_reference(row) for row in await tx.fetch(sql, (since, after, limit))]


async def naming(tx: Transaction, hash: str, *, limit: int) -> list[tuple[str, str, str]]:
    """(uuid, name, manifest) of collections that name a block. Reads every manifest."""
    # `hash` is 32 hex digits, so it has no wildcard of LIKE.
    rows = await tx.fetch(
        "SELECT uuid, name, manifest_text FROM collections WHERE manifest_text LIKE ?"
        " ORDER BY uuid LIMIT ?",
        (f"%{hash}%", limit),
    )
    return [(str(uuid), str(name or ""), str(text or "")) for uuid, name, text in rows]


def _reference(row: Row) -> Reference:
    uuid, text, copies, classes = row
    names = msgspec.json.decode(str(classes), type=list[str]) if classes else []
    return Reference(
        str(uuid), str(text or ""), None if copies is None else int(copies), tuple(names)
    )

"""Provenance: containers that produced a content, and containers that used it.

`container_inputs` says which contents each container mounts, so that its users are found by an
index; a row is made with the container and left when that is deleted.
"""

# ruff: noqa: S608 - only numbers of placeholders go into the statements

from __future__ import annotations

from collections.abc import Collection

import msgspec

from lading.core.records.schema import Record
from lading.store.database import Deferred, Transaction

TABLES = (
    "CREATE TABLE IF NOT EXISTS container_inputs (portable_data_hash TEXT NOT NULL,"
    " container_uuid TEXT NOT NULL, PRIMARY KEY (portable_data_hash, container_uuid))",
)
# Rows per query of the migration.
_PAGE = 500


async def note_inputs(tx: Transaction, container: Record) -> None:
    """Store the contents that a new container mounts."""
    mounts = container["mounts"].values()
    # One row per content: dict.fromkeys removes duplicates and keeps the order.
    hashes = (mount.get("portable_data_hash") for mount in mounts if isinstance(mount, dict))
    for one in dict.fromkeys(found for found in hashes if found and isinstance(found, str)):
        values = (one, container["uuid"])
        sql = "INSERT INTO container_inputs VALUES (?, ?) ON CONFLICT DO NOTHING"
        await tx.defer(Deferred(sql=sql, values=values, row=f"container_inputs {values}"))


async def fill_inputs(tx: Transaction) -> None:
    """Migration: store the inputs of containers that are older than this table."""
    after = ""
    while rows := await tx.fetch(
        "SELECT uuid, mounts FROM containers WHERE uuid > ? ORDER BY uuid LIMIT ?", (after, _PAGE)
    ):
        for uuid, mounts in rows:
            await note_inputs(
                tx,
                {"uuid": str(uuid), "mounts": msgspec.json.decode(str(mounts or "{}"), type=dict)},
            )
        after = str(rows[-1][0])


async def makers(tx: Transaction, hashes: Collection[str], *, limit: int) -> list[str]:
    """Containers whose output or log is one of these contents, the latest first."""
    marks = ", ".join("?" for _ in hashes)
    rows = await tx.fetch(
        f"SELECT uuid FROM containers WHERE output IN ({marks}) OR log IN ({marks})"
        " ORDER BY created_at DESC LIMIT ?",
        (*hashes, *hashes, limit),
    )
    return [str(row[0]) for row in rows]


async def users(tx: Transaction, hashes: Collection[str], *, limit: int) -> list[str]:
    """Containers that have one of these contents as an input or as their image, the latest
    first.
    """
    marks = ", ".join("?" for _ in hashes)
    rows = await tx.fetch(
        "SELECT uuid FROM (SELECT uuid, created_at FROM containers"
        f" WHERE container_image IN ({marks})"
        " UNION SELECT c.uuid, c.created_at FROM container_inputs i"
        " JOIN containers c ON c.uuid = i.container_uuid"
        f" WHERE i.portable_data_hash IN ({marks})) AS used ORDER BY created_at DESC LIMIT ?",
        (*hashes, *hashes, limit),
    )
    return [str(row[0]) for row in rows]

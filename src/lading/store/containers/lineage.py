"""The containers that made a content, and the containers that used it.

Provenance is the containers that produced a content, and the containers that used it.
`container_inputs` lists the contents that each container mounts, so that an index finds the users
of a content. A row is made with its container, and stays when the container is deleted.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from lading.core.ids import EMPTY_PDH
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import Expression
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Deferred, Dialect, Transaction
from lading.store.query import alias_condition

INPUT_TABLES = (
    "CREATE TABLE IF NOT EXISTS container_inputs (portable_data_hash TEXT NOT NULL,"
    " container_uuid TEXT NOT NULL, PRIMARY KEY (portable_data_hash, container_uuid))",
    "CREATE INDEX IF NOT EXISTS container_inputs_by_container ON container_inputs (container_uuid)",
)
# Rows per query of the migration.
_PAGE = 500


async def note_inputs(tx: Transaction, container: Record) -> None:
    """Store the contents that a new container mounts."""
    mounts = container["mounts"].values()
    # One row per content: dict.fromkeys removes duplicates and keeps the order.
    hashes = (mount.get("portable_data_hash") for mount in mounts if isinstance(mount, dict))
    for content_hash in dict.fromkeys(
        value for value in hashes if value and isinstance(value, str)
    ):
        values = (content_hash, container["uuid"])
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


async def makers(
    tx: Transaction,
    dialect: Dialect,
    hashes: Collection[str],
    readable: Sequence[Expression],
    *,
    limit: int,
) -> list[str]:
    """Containers whose output or log is one of these contents and that meet the conditions of
    `readable`, the latest first.
    """
    marks = ", ".join("?" for _ in hashes)
    condition, values = alias_condition(dialect, "containers", readable)
    rows = await tx.fetch(
        f"SELECT uuid FROM containers WHERE (output IN ({marks}) OR log IN ({marks})){condition}"
        " ORDER BY created_at DESC LIMIT ?",
        (*hashes, *hashes, *values, limit),
    )
    return [str(row[0]) for row in rows]


async def lineage(
    tx: Transaction,
    dialect: Dialect,
    hashes: Collection[str],
    readable: Sequence[Expression],
    *,
    is_upward: bool,
    limit: int,
) -> list[str]:
    """All containers from which these contents were made, directly or by others, or that have used
    them; at most `limit`. Nothing is followed through containers that do not meet the conditions of
    `readable`.

    Nor is it through the empty content, which any command may leave.
    """
    marks = ", ".join("?" for _ in hashes)
    condition, values = alias_condition(dialect, "c", readable)
    if is_upward:
        first = (
            "SELECT c.uuid FROM containers c"
            f" WHERE (c.output IN ({marks}) OR c.log IN ({marks})){condition}"
        )
        step = (
            "SELECT c.uuid FROM found f JOIN container_inputs i ON i.container_uuid = f.uuid"
            " JOIN containers c ON c.output = i.portable_data_hash"
            f" WHERE i.portable_data_hash <> ?{condition}"
        )
        starting = [*hashes, *hashes, *values]
    else:
        first = (
            f"SELECT c.uuid FROM containers c WHERE c.container_image IN ({marks}){condition}"
            " UNION SELECT c.uuid FROM container_inputs i JOIN containers c"
            f" ON c.uuid = i.container_uuid WHERE i.portable_data_hash IN ({marks}){condition}"
        )
        step = (
            "SELECT c.uuid FROM found f JOIN containers d ON d.uuid = f.uuid"
            " JOIN container_inputs i ON i.portable_data_hash = d.output"
            f" JOIN containers c ON c.uuid = i.container_uuid WHERE d.output <> ?{condition}"
        )
        starting = [*hashes, *values, *hashes, *values]
    rows = await tx.fetch(
        f"WITH RECURSIVE found (uuid) AS (SELECT uuid FROM ({first}) AS start UNION {step})"
        " SELECT uuid FROM found LIMIT ?",
        (*starting, EMPTY_PDH, *values, limit),
    )
    return [str(row[0]) for row in rows]


async def users(
    tx: Transaction,
    dialect: Dialect,
    hashes: Collection[str],
    readable: Sequence[Expression],
    *,
    limit: int,
) -> list[str]:
    """Containers that have one of these contents as an input or as their image and that meet the
    conditions of `readable`, the latest first.
    """
    marks = ", ".join("?" for _ in hashes)
    condition, values = alias_condition(dialect, "used", readable)
    rows = await tx.fetch(
        "SELECT uuid FROM (SELECT uuid, created_at FROM containers"
        f" WHERE container_image IN ({marks})"
        " UNION SELECT c.uuid, c.created_at FROM container_inputs i"
        " JOIN containers c ON c.uuid = i.container_uuid"
        f" WHERE i.portable_data_hash IN ({marks})) AS used WHERE 1 = 1{condition}"
        " ORDER BY created_at DESC LIMIT ?",
        (*hashes, *hashes, *values, limit),
    )
    return [str(row[0]) for row in rows]


async def withdrawn_above(
    tx: Transaction, dialect: Dialect, container_uuid: str, readable: Sequence[Expression]
) -> list[Record]:
    """Containers with withdrawn results that made the inputs of a container, directly or by other
    containers; ten at most. Only containers that meet the conditions of `readable` count, on the
    way too.

    A content comes from none of them when another container with a standing result made it too.
    """
    if not await tx.fetch("SELECT 1 FROM containers WHERE withdrawn_at IS NOT NULL LIMIT 1"):
        return []
    maker, values = alias_condition(dialect, "c", readable)
    standing, further = alias_condition(dialect, "o", readable)
    makers = (
        "SELECT c.uuid FROM container_inputs i JOIN containers c"
        f" ON c.output = i.portable_data_hash AND i.portable_data_hash <> ?{maker}"
    )
    rows = await tx.fetch(
        f"WITH RECURSIVE above (uuid) AS ({makers} WHERE i.container_uuid = ?"
        f" UNION {makers} JOIN above a ON i.container_uuid = a.uuid)"
        " SELECT c.uuid FROM above a JOIN containers c ON c.uuid = a.uuid"
        " WHERE c.withdrawn_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM containers o"
        f" WHERE o.output = c.output AND o.state = 'Complete' AND o.withdrawn_at IS NULL{standing})"
        " ORDER BY c.uuid LIMIT 10",
        (EMPTY_PDH, *values, container_uuid, EMPTY_PDH, *values, *further),
    )
    return await records.among(tx, CONTAINERS, "uuid", [str(row[0]) for row in rows])

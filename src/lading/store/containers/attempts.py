"""The containers that a request tried before its present one, a row of `container_attempts` each.

These rows decide who may read the log of a container: it is kept, and readable by its hash, while a
request has the container, or has tried it.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from typing import Final

import msgspec

from lading.core.records.schema import Record
from lading.store.database import Deferred, Transaction

ATTEMPT_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS container_attempts (container_uuid TEXT NOT NULL,"
    " request_uuid TEXT NOT NULL, PRIMARY KEY (container_uuid, request_uuid))",
    "CREATE INDEX IF NOT EXISTS container_attempts_request_uuid"
    " ON container_attempts (request_uuid)",
)

# Requests that have the container `c` now, or had it before.
_REQUESTS: Final = (
    "SELECT r.uuid FROM container_requests r WHERE r.container_uuid = c.uuid"
    " UNION ALL SELECT r.uuid FROM container_attempts a"
    " JOIN container_requests r ON r.uuid = a.request_uuid WHERE a.container_uuid = c.uuid"
)

# The last copy only: while another collection has the same content, this one may go.
WANTED_LOG: Final = (
    "EXISTS (SELECT 1 FROM containers c WHERE c.log = collections.portable_data_hash"
    f" AND EXISTS ({_REQUESTS})) AND NOT EXISTS (SELECT 1 FROM collections other"
    " WHERE other.portable_data_hash = collections.portable_data_hash"
    " AND other.uuid <> collections.uuid AND (other.delete_at IS NULL OR other.delete_at > ?))"
)
"""The condition that a collection is the last one with the log of a container of a request; the
placeholder is the time."""

# Rows per query of the migration, so that memory does not grow with the table.
_ATTEMPTS_PAGE: Final = 500


async def note_attempts(tx: Transaction, request: Record) -> None:
    """Store the containers that a request has tried."""
    for uuid in request["attempted_container_uuids"] or ():
        values = (uuid, request["uuid"])
        sql = "INSERT INTO container_attempts VALUES (?, ?) ON CONFLICT DO NOTHING"
        await tx.defer(Deferred(sql=sql, values=values, row=f"container_attempts {values}"))


async def forget_attempts(tx: Transaction, request_uuid: str) -> None:
    """Delete the rows of a deleted request."""
    await tx.execute("DELETE FROM container_attempts WHERE request_uuid = ?", (request_uuid,))


async def fill_attempts(tx: Transaction) -> None:
    """Migration: store the attempts of requests that are older than this table."""
    # Continues after the last uuid of each page, without an open cursor.
    after = ""
    while rows := await tx.fetch(
        "SELECT uuid, attempted_container_uuids FROM container_requests WHERE uuid > ?"
        " AND CAST(attempted_container_uuids AS TEXT) <> '[]' ORDER BY uuid LIMIT ?",
        (after, _ATTEMPTS_PAGE),
    ):
        for uuid, tried in rows:
            found = msgspec.json.decode(str(tried), type=list[str])
            await note_attempts(tx, {"uuid": str(uuid), "attempted_container_uuids": found})
        after = str(rows[-1][0])


async def requests_with_log(tx: Transaction, pdh: str) -> list[str]:
    """Requests with a present or earlier container whose log has this portable data hash."""
    rows = await tx.fetch(
        "SELECT r.uuid FROM containers c JOIN container_requests r ON r.container_uuid = c.uuid"
        " WHERE c.log = ?"
        " UNION SELECT a.request_uuid FROM containers c"
        " JOIN container_attempts a ON a.container_uuid = c.uuid"
        " WHERE c.log = ?",
        (pdh, pdh),
    )
    return [str(row[0]) for row in rows]

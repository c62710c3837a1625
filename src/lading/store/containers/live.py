"""Containers that have not ended: their states, numbers and warnings, and the holders of them."""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lading.core.records.schema import Record
from lading.store.database import Transaction
from lading.store.permissions import CHUNK


async def states(tx: Transaction, uuids: Sequence[str]) -> dict[str, Record]:
    """Map each uuid to its container's state, priority and `locked_by_uuid`; unknown uuids are left
    out.
    """
    rows = await tx.fetch(
        "SELECT uuid, state, priority, locked_by_uuid FROM containers"
        f" WHERE uuid IN ({', '.join('?' for _ in uuids)})",
        tuple(uuids),
    )
    names = ("uuid", "state", "priority", "locked_by_uuid")
    return {str(row[0]): dict(zip(names, row, strict=True)) for row in rows}


# Each part is one range of the index: to group the rows takes ten times as long.
LIVE_COUNTS: Final = " UNION ALL ".join(
    f"SELECT CAST('{name}' AS TEXT), count(*) FROM containers WHERE {condition}"
    for name, condition in (
        ("Queued", "state = 'Queued' AND priority > 0"),
        ("On hold", "state = 'Queued' AND priority <= 0"),
        ("Locked", "state = 'Locked'"),
        ("Running", "state = 'Running'"),
    )
)
"""The query of `live_counts`."""


async def live_counts(tx: Transaction) -> dict[str, int]:
    """Number of the containers that have not ended, by state; `On hold` are those in the queue that
    no request wants now. Read from the index of states and priorities alone.
    """
    return {str(row[0]): int(row[1] or 0) for row in await tx.fetch(LIVE_COUNTS)}


# The condition on the state is in a form without an index: SQLite would read all that wait, as it
# expects few of them.
WARNED: Final = (
    "SELECT uuid, runtime_status FROM containers WHERE uuid IN ({})"
    " AND CASE WHEN state = 'Queued' AND runtime_status <> '{{}}' THEN TRUE ELSE FALSE END"
)
"""Waiting containers with a status among some; `str.format` with the placeholders of uuids."""


async def warned(tx: Transaction, uuids: Collection[str]) -> dict[str, str]:
    """Warnings of waiting containers, by uuid."""
    # In parts: SQLite and PostgreSQL limit the number of placeholders of a statement.
    named, warnings = tuple(uuids), dict[str, str]()
    for start in range(0, len(named), CHUNK):
        chunk = named[start : start + CHUNK]
        rows = await tx.fetch(
            WARNED.format(", ".join("?" for _ in chunk)),
            chunk,
        )
        for uuid, status in rows:
            warning = msgspec.json.decode(str(status)).get("warning")
            if warning:
                warnings[str(uuid)] = str(warning)
    return warnings


async def wanted_below(
    tx: Transaction, container_uuids: Collection[str], *, most: int
) -> list[str]:
    """Some unfinished containers of Committed requests made by these containers."""
    return await _requested_containers(tx, "requesting_container_uuid", container_uuids, most=most)


async def wanted_by(tx: Transaction, owners: Sequence[str], *, most: int) -> list[str]:
    """Some unfinished containers of Committed requests owned by these projects."""
    uuids: dict[str, None] = {}
    for start in range(0, len(owners), CHUNK):
        chunk = owners[start : start + CHUNK]
        uuids |= dict.fromkeys(
            await _requested_containers(tx, "owner_uuid", chunk, most=most - len(uuids))
        )
        if len(uuids) >= most:
            break
    return list(uuids)


async def _requested_containers(
    tx: Transaction, column: str, values: Collection[str], *, most: int
) -> list[str]:
    marks = ", ".join("?" for _ in values)
    rows = await tx.fetch(
        "SELECT DISTINCT r.container_uuid FROM container_requests r"
        f" WHERE r.{column} IN ({marks}) AND r.state = 'Committed'"
        # No join: for many values SQLite would begin with all containers that have not ended.
        " AND EXISTS (SELECT 1 FROM containers c WHERE c.uuid = r.container_uuid"
        " AND c.state IN ('Queued', 'Locked', 'Running')) LIMIT ?",
        (*values, most),
    )
    return [str(row[0]) for row in rows]


@dataclass(frozen=True, slots=True)
class OrphanedContainer:
    """A container that is held by a token which has ended. `heard`: when the token of its
    supervisor was last used, as far as that is stored.
    """

    uuid: str
    supervisor_auth_uuid: str | None
    heard: str | None


async def orphaned(tx: Transaction, now: str, *, root_token: str) -> list[OrphanedContainer]:
    """The containers that are Locked or Running and whose holder's token was deleted, has expired,
    or belongs to a user who is no admin any more. The root token is not stored, and never ends.
    """
    rows = await tx.fetch(
        "SELECT c.uuid, c.supervisor_auth_uuid, s.last_used_at FROM containers c"
        " LEFT JOIN api_client_authorizations t ON t.uuid = c.locked_by_uuid"
        " LEFT JOIN users u ON u.uuid = t.owner_uuid"
        " LEFT JOIN api_client_authorizations s ON s.uuid = c.supervisor_auth_uuid"
        " WHERE c.state IN ('Locked', 'Running') AND c.locked_by_uuid <> ?"
        " AND (t.uuid IS NULL OR t.expires_at <= ? OR u.uuid IS NULL OR u.is_admin = 0)"
        " ORDER BY c.uuid",
        (root_token, now),
    )
    return [
        OrphanedContainer(
            uuid=str(uuid),
            supervisor_auth_uuid=None if supervisor is None else str(supervisor),
            heard=None if heard is None else str(heard),
        )
        for uuid, supervisor, heard in rows
    ]

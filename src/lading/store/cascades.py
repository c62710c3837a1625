"""Cascades: consequences of one change for very many containers, requests or records.

The transaction of the change stores a row of `cascades`; servers work it off, a page in each of
their transactions, and store the position in the same transaction: so it goes on after a restart.
There is one row for each kind and subject; a further change of the subject begins it anew. The
server that works on one holds it for some seconds and renews that with each page.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from lading.store.database import Dialect, Row, Transaction
from lading.store.leases import WorkLease

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS cascades (kind TEXT NOT NULL, subject_uuid TEXT NOT NULL,"
    " begun_at TEXT NOT NULL, position TEXT NOT NULL, done BIGINT NOT NULL, holder TEXT NOT NULL,"
    " held_until TEXT NOT NULL, PRIMARY KEY (kind, subject_uuid))",
)
AT_ONCE: Final = 200
"""The most records that the transaction of a change may take along, in place of a cascade."""
_COLUMNS: Final = "kind, subject_uuid, begun_at, position, done, holder, held_until"
_LIVE: Final = "('Queued', 'Locked', 'Running')"


class CascadeKind(StrEnum):
    """Kind of a cascade: what its subject is, and what is done."""

    PROJECT = "project"
    """The priorities of the containers of a project and of the projects in it."""
    BELOW = "below"
    """The priorities of the containers that a container asked for."""
    CHILDREN = "children"
    """The requests that an ended container made are cancelled."""
    QUOTA = "quota"
    """The waiting containers of the subject of a quota are looked at anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade(WorkLease):
    """A cascade and how far it is; an empty `position` is its beginning."""

    kind: CascadeKind
    subject_uuid: str
    begun_at: str
    position: tuple[str, ...] = ()
    done: int = 0


async def put(tx: Transaction, cascade: Cascade) -> None:
    """Store a cascade, in place of its earlier state."""
    assignments = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS.split(", ")[2:])
    await tx.execute(
        f"INSERT INTO cascades ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
        f" ON CONFLICT (kind, subject_uuid) DO UPDATE SET {assignments}",
        (
            cascade.kind,
            cascade.subject_uuid,
            cascade.begun_at,
            msgspec.json.encode(cascade.position).decode(),
            cascade.done,
            cascade.holder,
            cascade.held_until,
        ),
    )


async def get(tx: Transaction, kind: CascadeKind, subject_uuid: str) -> Cascade | None:
    """A cascade that is under way."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS} FROM cascades WHERE kind = ? AND subject_uuid = ?",
        (kind, subject_uuid),
    )
    return _cascade(rows[0]) if rows else None


async def unfinished(tx: Transaction, *, most: int) -> list[Cascade]:
    """The cascades that are under way, the oldest first."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS} FROM cascades ORDER BY begun_at, kind, subject_uuid LIMIT ?", (most,)
    )
    return [_cascade(row) for row in rows]


async def finish(tx: Transaction, cascade: Cascade) -> None:
    """Delete a cascade that is complete."""
    await tx.execute(
        "DELETE FROM cascades WHERE kind = ? AND subject_uuid = ?",
        (cascade.kind, cascade.subject_uuid),
    )


def _cascade(row: Row) -> Cascade:
    return Cascade(
        kind=CascadeKind(str(row[0])),
        subject_uuid=str(row[1]),
        begun_at=str(row[2]),
        position=msgspec.json.decode(str(row[3]), type=tuple[str, ...]),
        done=int(row[4] or 0),
        holder=str(row[5]),
        held_until=str(row[6]),
    )


@dataclass(frozen=True, slots=True)
class CascadePage:
    """Unfinished containers of a page; `position` is that after it, None after the last page."""

    container_uuids: list[str]
    position: tuple[str, ...] | None


def _order(dialect: Dialect) -> str:
    return f"{dialect.order('r.created_at')}, {dialect.order('r.uuid')}"


async def page_of_projects(
    tx: Transaction,
    dialect: Dialect,
    groups: Sequence[str],
    position: tuple[str, ...],
    *,
    size: int,
) -> CascadePage:
    """Containers of Committed requests of `groups`, which are sorted. A position is a group, and
    the time and uuid of the last request of it.
    """
    group, at, uuid = position or ("", "", "")
    containers: dict[str, None] = {}
    left = size
    for looked, owner in enumerate(group_uuid for group_uuid in groups if group_uuid >= group):
        if looked >= size:
            # So many projects without requests are a page, too.
            return CascadePage(list(containers), (owner, "", ""))
        if owner != group:
            at, uuid = "", ""
        rows = await tx.fetch(
            "SELECT r.created_at, r.uuid, c.uuid FROM container_requests r LEFT JOIN containers c"
            f" ON c.uuid = r.container_uuid AND c.state IN {_LIVE}"
            " WHERE r.owner_uuid = ? AND r.created_at >= ? AND (r.created_at > ? OR r.uuid > ?)"
            f" AND r.state = 'Committed' ORDER BY {_order(dialect)} LIMIT ?",
            (owner, at, at, uuid, left),
        )
        containers |= {str(row[2]): None for row in rows if row[2] is not None}
        if len(rows) == left:
            return CascadePage(list(containers), (owner, str(rows[-1][0]), str(rows[-1][1])))
        left -= len(rows)
    return CascadePage(list(containers), None)


async def page_of_children(
    tx: Transaction, dialect: Dialect, container_uuid: str, position: tuple[str, ...], *, size: int
) -> CascadePage:
    """Containers of Committed requests that a container made. A position is the time and uuid of
    the last request.
    """
    at, uuid = position or ("", "")
    rows = await tx.fetch(
        "SELECT r.created_at, r.uuid, c.uuid FROM container_requests r LEFT JOIN containers c"
        f" ON c.uuid = r.container_uuid AND c.state IN {_LIVE}"
        " WHERE r.state = 'Committed' AND r.created_at >= ? AND (r.created_at > ? OR r.uuid > ?)"
        # No column of an index: that one would have to be sorted for each page.
        f" AND r.requesting_container_uuid || '' = ? ORDER BY {_order(dialect)} LIMIT ?",
        (at, at, uuid, container_uuid, size),
    )
    found = dict.fromkeys(str(row[2]) for row in rows if row[2] is not None)
    last = (str(rows[-1][0]), str(rows[-1][1])) if len(rows) == size else None
    return CascadePage(list(found), last)


async def children(tx: Transaction, container_uuid: str, *, most: int) -> list[str]:
    """Some Committed requests that a container made."""
    rows = await tx.fetch(
        "SELECT uuid FROM container_requests"
        " WHERE requesting_container_uuid = ? AND state = 'Committed' LIMIT ?",
        (container_uuid, most),
    )
    return [str(row[0]) for row in rows]


async def asking(tx: Transaction, dialect: Dialect, container_uuids: Collection[str]) -> list[str]:
    """The containers among these that made Committed requests."""
    condition = dialect.among.format("requesting_container_uuid")
    rows = await tx.fetch(
        f"SELECT DISTINCT requesting_container_uuid FROM container_requests WHERE {condition}"
        " AND state = 'Committed'",
        (msgspec.json.encode(list(container_uuids)).decode(),),
    )
    return [str(row[0]) for row in rows]

"""Rows of fair share: accounts of shares, and tickets of containers.

- `fair_accounts`: one row for each share and level (`ShareAccount`). `reached` is
  the largest tag of a container that it locked; the largest of a level is the level's clock.
- `fair_tickets`: one row for each container that waits or is held (`Ticket`), with its place.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from lading.core.policy.fair_share import WINDOW, ShareAccount, Ticket
from lading.core.runs.attempts import is_run
from lading.core.values import JsonObject
from lading.store.database import Deferred, Row, Transaction
from lading.store.permissions import CHUNK

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS fair_accounts (level BIGINT NOT NULL, share TEXT NOT NULL,"
    " weight DOUBLE PRECISION NOT NULL, finish BIGINT NOT NULL, credit BIGINT NOT NULL,"
    " used BIGINT NOT NULL, seen BIGINT NOT NULL, expected BIGINT NOT NULL,"
    " reached BIGINT NOT NULL, PRIMARY KEY (level, share))",
    "CREATE INDEX IF NOT EXISTS fair_accounts_reached ON fair_accounts (level, reached)",
    "CREATE TABLE IF NOT EXISTS fair_tickets (container_uuid TEXT PRIMARY KEY,"
    " level BIGINT NOT NULL, share TEXT NOT NULL, created BIGINT NOT NULL, place TEXT NOT NULL,"
    " tag BIGINT NOT NULL, vcpus DOUBLE PRECISION NOT NULL, weight DOUBLE PRECISION NOT NULL,"
    " expected BIGINT NOT NULL, charge BIGINT NOT NULL, lent BIGINT NOT NULL,"
    " held_at BIGINT NOT NULL, due BIGINT)",
    "CREATE INDEX IF NOT EXISTS fair_tickets_share"
    " ON fair_tickets (level, share, place, created, container_uuid)",
    "CREATE INDEX IF NOT EXISTS fair_tickets_due ON fair_tickets (due) WHERE due IS NOT NULL",
)
_TICKET: Final = (
    "container_uuid, level, share, created, place, tag, vcpus, weight, expected, charge, lent,"
    " held_at, due"
)


class Place(StrEnum):
    """Place of a container: behind the exact tags, with one, or Locked or Running."""

    PARKED = "parked"
    EXACT = "exact"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTicket:
    """A ticket with its container, share and place. Times are milliseconds since 1970.

    `created`: the time of its request. `held_at`: 0 before the ticket is held. A held ticket is
    prolonged at `due`. A parked ticket is charged nothing yet.
    """

    container_uuid: str
    level: int
    share: str
    created: int
    state: Place
    ticket: Ticket
    held_at: int = 0
    due: int | None = None


@dataclass(frozen=True, slots=True)
class ShareUse:
    """Use of a share at one level, decayed as of `changed_at`, and its weight."""

    share: str
    weight: float
    used: int
    changed_at: int


async def clock(tx: Transaction, level: int) -> int | None:
    """The largest tag that was locked at a level; None before the first account."""
    rows = await tx.fetch("SELECT max(reached) FROM fair_accounts WHERE level = ?", (level,))
    return None if rows[0][0] is None else int(rows[0][0])


async def account(tx: Transaction, level: int, share: str) -> tuple[ShareAccount, int] | None:
    """The account of a share, and the largest tag that it locked; None without one."""
    rows = await tx.fetch(
        "SELECT weight, finish, credit, used, seen, expected, reached FROM fair_accounts"
        " WHERE level = ? AND share = ?",
        (level, share),
    )
    if not rows:
        return None
    weight, *amounts = rows[0]
    finish, credit, used, changed_at, expected, reached = (int(amount or 0) for amount in amounts)
    share_account = ShareAccount(
        weight=float(weight or 0),
        finish=finish,
        credit=credit,
        used=used,
        changed_at=changed_at,
        expected=expected,
    )
    return share_account, reached


async def put_account(
    tx: Transaction, level: int, share: str, new: ShareAccount, *, reached: int
) -> None:
    """Store the account of a share."""
    sql = (
        "INSERT INTO fair_accounts (level, share, weight, finish, credit, used, seen, expected,"
        " reached) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (level, share) DO UPDATE SET"
        " weight = excluded.weight, finish = excluded.finish, credit = excluded.credit,"
        " used = excluded.used, seen = excluded.seen, expected = excluded.expected,"
        " reached = excluded.reached"
    )
    values = (
        level,
        share,
        new.weight,
        new.finish,
        new.credit,
        new.used,
        new.changed_at,
        new.expected,
        reached,
    )
    await tx.defer(Deferred(sql=sql, values=values, row=f"fair_accounts {level} {share}"))


async def tickets(tx: Transaction, uuids: Collection[str]) -> dict[str, StoredTicket]:
    """The tickets of containers, by uuid."""
    named, tickets_by_uuid = tuple(uuids), dict[str, StoredTicket]()
    for start in range(0, len(named), CHUNK):
        chunk = named[start : start + CHUNK]
        rows = await tx.fetch(
            f"SELECT {_TICKET} FROM fair_tickets"  # noqa: S608 - names of columns
            f" WHERE container_uuid IN ({', '.join('?' for _ in chunk)})",
            chunk,
        )
        tickets_by_uuid |= {ticket.container_uuid: ticket for ticket in map(_ticket, rows)}
    return tickets_by_uuid


async def put_ticket(tx: Transaction, stored: StoredTicket) -> None:
    """Store a ticket."""
    sql = (
        f"INSERT INTO fair_tickets ({_TICKET})"  # noqa: S608 - names of columns
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (container_uuid) DO UPDATE SET level = excluded.level,"
        " share = excluded.share, created = excluded.created, place = excluded.place,"
        " tag = excluded.tag, vcpus = excluded.vcpus, weight = excluded.weight,"
        " expected = excluded.expected, charge = excluded.charge, lent = excluded.lent,"
        " held_at = excluded.held_at, due = excluded.due"
    )
    ticket = stored.ticket
    values = (
        stored.container_uuid,
        stored.level,
        stored.share,
        stored.created,
        stored.state.value,
        ticket.tag,
        ticket.vcpus,
        ticket.weight,
        ticket.expected,
        ticket.charge,
        ticket.lent,
        stored.held_at,
        stored.due,
    )
    await tx.defer(Deferred(sql=sql, values=values, row=f"fair_tickets {stored.container_uuid}"))


async def remove_ticket(tx: Transaction, container_uuid: str) -> None:
    """Delete the ticket of a container."""
    await tx.execute("DELETE FROM fair_tickets WHERE container_uuid = ?", (container_uuid,))


async def exact(tx: Transaction, level: int, share: str, *, since: int) -> list[StoredTicket]:
    """The first waiting containers of a share that have exact tags, from the tag `since` on.

    A ticket far behind the clock does not count: others have passed it, so it cannot run now.
    """
    rows = await tx.fetch(
        f"SELECT {_TICKET} FROM fair_tickets"  # noqa: S608 - names of columns
        " WHERE level = ? AND share = ? AND place = 'exact' AND tag >= ?"
        " ORDER BY tag, created, container_uuid LIMIT ?",
        (level, share, since, WINDOW),
    )
    return [_ticket(row) for row in rows]


async def parked(tx: Transaction, level: int, share: str, *, most: int) -> list[StoredTicket]:
    """The oldest parked containers of a share."""
    rows = await tx.fetch(
        f"SELECT {_TICKET} FROM fair_tickets"  # noqa: S608 - names of columns
        " WHERE level = ? AND share = ? AND place = 'parked'"
        " ORDER BY created, container_uuid LIMIT ?",
        (level, share, most),
    )
    return [_ticket(row) for row in rows]


async def passed_over(tx: Transaction, level: int, *, clock: int) -> str | None:
    """The share with parked containers whose finish is furthest behind the clock."""
    rows = await tx.fetch(
        "SELECT a.share FROM fair_accounts a WHERE a.level = ? AND a.finish <= ?"
        " AND EXISTS (SELECT 1 FROM fair_tickets t WHERE t.level = a.level AND t.share = a.share"
        " AND t.place = 'parked') ORDER BY a.finish LIMIT 1",
        (level, clock),
    )
    return str(rows[0][0]) if rows else None


async def overdue(tx: Transaction, now: int, *, most: int) -> list[StoredTicket]:
    """Held containers that were charged for a shorter time than they are held."""
    rows = await tx.fetch(
        f"SELECT {_TICKET} FROM fair_tickets"  # noqa: S608 - names of columns
        " WHERE due IS NOT NULL AND due <= ? ORDER BY due LIMIT ?",
        (now, most),
    )
    return [_ticket(row) for row in rows]


async def waiting(tx: Transaction, *, most: int) -> list[str]:
    """Containers with a ticket."""
    rows = await tx.fetch("SELECT container_uuid FROM fair_tickets LIMIT ?", (most,))
    return [str(row[0]) for row in rows]


async def uses(tx: Transaction) -> list[ShareUse]:
    """The use of each share at each level."""
    rows = await tx.fetch("SELECT share, weight, used, seen FROM fair_accounts")
    return [
        ShareUse(str(row[0]), float(row[1] or 1), int(row[2] or 0), int(row[3] or 0))
        for row in rows
    ]


async def ahead(tx: Transaction, share: str, priority: int, created_at: str, *, most: int) -> int:
    """Number of waiting containers of a share before this priority, at most `most`."""
    rows = await tx.fetch(
        # Counting stops at `most` rows.
        "SELECT count(*) FROM (SELECT 1 FROM fair_tickets t"
        " JOIN containers c ON c.uuid = t.container_uuid"
        " WHERE t.share = ? AND c.state = 'Queued' AND c.priority > 0"
        " AND (c.priority > ? OR (c.priority = ? AND c.created_at < ?)) LIMIT ?) before",
        (share, priority, priority, created_at, most),
    )
    return int(rows[0][0] or 0)


async def counts(tx: Transaction) -> dict[str, tuple[int, int]]:
    """How many containers of each share wait, and how many are held."""
    rows = await tx.fetch(
        "SELECT share, sum(CASE WHEN place = 'held' THEN 0 ELSE 1 END),"
        " sum(CASE WHEN place = 'held' THEN 1 ELSE 0 END) FROM fair_tickets GROUP BY share"
    )
    return {str(row[0]): (int(row[1] or 0), int(row[2] or 0)) for row in rows}


async def forget(tx: Transaction, *, seen_before: int) -> None:
    """Delete accounts that nobody has used for long; the clocks stay."""
    await tx.execute(
        "DELETE FROM fair_accounts WHERE seen < ?"
        " AND reached < (SELECT max(o.reached) FROM fair_accounts o"
        " WHERE o.level = fair_accounts.level)"
        " AND NOT EXISTS (SELECT 1 FROM fair_tickets t"
        " WHERE t.level = fair_accounts.level AND t.share = fair_accounts.share)",
        (seen_before,),
    )


async def policies_above(tx: Transaction, uuid: str) -> list[tuple[str, JsonObject]]:
    """A project and the projects above it, nearest first, with the policy of each; empty for a
    user. A run of a pipeline stands for its owner: else each run would be a share of its own.
    """
    rows = await tx.fetch(
        "WITH RECURSIVE above (uuid, owner_uuid, policy, properties, depth) AS"
        " (SELECT uuid, owner_uuid, container_policy, properties, 1 FROM groups WHERE uuid = ?"
        " UNION ALL SELECT g.uuid, g.owner_uuid, g.container_policy, g.properties, above.depth + 1"
        " FROM groups g JOIN above ON g.uuid = above.owner_uuid)"
        " SELECT uuid, CAST(policy AS TEXT), owner_uuid, CAST(properties AS TEXT)"
        " FROM above ORDER BY depth",
        (uuid,),
    )
    above: list[tuple[str, JsonObject]] = []
    for project, policy, owner, properties in rows:
        rules = msgspec.json.decode(str(policy or "{}"))
        stands_for_owner = not rules and is_run(msgspec.json.decode(str(properties or "{}")))
        above.append((str(owner if stands_for_owner else project), rules))
    return above


def _ticket(row: Row) -> StoredTicket:
    uuid, level, share, created, place_name, tag, vcpus, weight, *amounts, due = row
    expected, charge, lent, held_at = (int(amount or 0) for amount in amounts)
    return StoredTicket(
        container_uuid=str(uuid),
        level=int(level or 0),
        share=str(share),
        created=int(created or 0),
        state=Place(str(place_name)),
        ticket=Ticket(
            tag=int(tag or 0),
            vcpus=float(vcpus or 0),
            weight=float(weight or 1),
            expected=expected,
            charge=charge,
            lent=lent,
        ),
        held_at=held_at,
        due=None if due is None else int(due),
    )

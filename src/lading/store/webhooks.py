"""Position of each webhook in the log, and its dead letters.

- `webhook_positions` has one row for each webhook: the number of the last log row that it is done
  with, and its progress (`core.webhooks.schedule`). A server that sends its events holds the row
  for some seconds and renews the time; another server takes the rows of a server that ended.
- `webhook_letters` has one row for each event that could not be delivered. A queued letter is
  sent again before further events.
- `webhook_attempts` has the latest attempts of each webhook.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from lading.core.webhooks.schedule import DeliveryProgress
from lading.store.database import Row, Transaction, Value
from lading.store.leases import LeaseTable, WorkLease

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS webhook_positions (webhook_uuid TEXT PRIMARY KEY,"
    " position BIGINT NOT NULL, attempts INTEGER NOT NULL, failures INTEGER NOT NULL,"
    " failing_since TEXT NOT NULL, next_at TEXT NOT NULL, holder TEXT NOT NULL,"
    " held_until TEXT NOT NULL, delivered BIGINT NOT NULL, delivered_at TEXT NOT NULL,"
    " fault TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS webhook_letters (webhook_uuid TEXT NOT NULL,"
    " log_id BIGINT NOT NULL, event_type TEXT NOT NULL, is_queued INTEGER NOT NULL,"
    " fault TEXT NOT NULL, failed_at TEXT NOT NULL, PRIMARY KEY (webhook_uuid, log_id))",
    "CREATE TABLE IF NOT EXISTS webhook_attempts (webhook_uuid TEXT NOT NULL,"
    " number BIGINT NOT NULL, log_id BIGINT NOT NULL, event_type TEXT NOT NULL,"
    " outcome TEXT NOT NULL, status INTEGER NOT NULL, fault TEXT NOT NULL,"
    " tried_at TEXT NOT NULL, PRIMARY KEY (webhook_uuid, number))",
)
_COLUMNS: Final = (
    "p.webhook_uuid, p.position, p.attempts, p.failures, p.failing_since, p.next_at, p.delivered,"
    " p.delivered_at, p.fault,"
    " (SELECT count(*) FROM webhook_letters l WHERE l.webhook_uuid = p.webhook_uuid"
    " AND l.is_queued = 0)"
)
_QUEUED: Final = (
    "(SELECT min(q.log_id) FROM webhook_letters q WHERE q.webhook_uuid = p.webhook_uuid"
    " AND q.is_queued = 1)"
)
_HAS_QUEUED: Final = (
    "EXISTS (SELECT 1 FROM webhook_letters q WHERE q.webhook_uuid = p.webhook_uuid"
    " AND q.is_queued = 1)"
)
LEASES: Final = LeaseTable("webhook_positions", "webhook_uuid")
"""The server that sends the events of a webhook."""
KEPT_ATTEMPTS: Final = 20
"""Attempts of each webhook that are kept."""
# Values of one statement.
_TOGETHER: Final = 500
_Value = TypeVar("_Value", str, int)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPosition:
    """Position of a webhook in the log: `position` is the number of the last log row that it is
    done with, `queued` the number of the first dead letter to send again, 0 for none. Times are ""
    for never.
    """

    webhook_uuid: str
    position: int
    progress: DeliveryProgress
    next_at: str = ""
    delivered: int = 0
    delivered_at: str = ""
    fault: str = ""
    queued: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that could not be delivered, by the number of its log row."""

    log_id: int
    event_type: str
    is_queued: bool
    fault: str
    failed_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """An attempt to deliver an event, by the number of its log row: the outcome, the status of HTTP
    or 0, and the fault or "".
    """

    log_id: int
    event_type: str
    outcome: str
    status: int
    fault: str
    tried_at: str


async def start(tx: Transaction, uuid: str, position: int) -> None:
    """Begin after a log row; a webhook that has a position goes on there, without failures."""
    await tx.execute(
        "INSERT INTO webhook_positions (webhook_uuid, position, attempts, failures, failing_since,"
        " next_at, holder, held_until, delivered, delivered_at, fault)"
        " VALUES (?, ?, 0, 0, '', '', '', '', 0, '', '') ON CONFLICT (webhook_uuid) DO UPDATE SET"
        " position = excluded.position, attempts = 0, failures = 0, failing_since = '',"
        # A server that still holds it must not store what it found before.
        " next_at = '', holder = '', held_until = ''",
        (uuid, position),
    )


async def find(tx: Transaction, uuid: str) -> WebhookPosition | None:
    """The position of a webhook; None if it has none."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS}, {_QUEUED} FROM webhook_positions p WHERE p.webhook_uuid = ?", (uuid,)
    )
    return _position(rows[0]) if rows else None


async def among(tx: Transaction, uuids: Sequence[str]) -> list[WebhookPosition]:
    """The positions of the webhooks that have a position."""
    positions: list[WebhookPosition] = []
    for chunk, marks in _parts(uuids):
        rows = await tx.fetch(
            f"SELECT {_COLUMNS}, {_QUEUED} FROM webhook_positions p"
            f" WHERE p.webhook_uuid IN ({marks})",
            chunk,
        )
        positions += [_position(row) for row in rows]
    return positions


async def forget(tx: Transaction, uuid: str) -> None:
    """Delete the position and the dead letters of a webhook."""
    for table in ("webhook_positions", "webhook_letters", "webhook_attempts"):
        await tx.execute(f"DELETE FROM {table} WHERE webhook_uuid = ?", (uuid,))


async def sweep(tx: Transaction, *, now: str) -> int:
    """Delete positions and dead letters of webhooks that were deleted, and former secrets that are
    valid no more; the number of positions.
    """
    await tx.execute(
        "UPDATE webhooks SET former_secret = NULL, former_secret_until = NULL"
        " WHERE former_secret_until <= ?",
        (now,),
    )
    gone = "NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.uuid = webhook_uuid)"
    await tx.execute(f"DELETE FROM webhook_letters WHERE {gone}")
    await tx.execute(f"DELETE FROM webhook_attempts WHERE {gone}")
    return await tx.execute(f"DELETE FROM webhook_positions WHERE {gone}")


async def has_active(tx: Transaction) -> bool:
    """Whether there is an active webhook."""
    return bool(await tx.fetch("SELECT 1 FROM webhooks WHERE state = 'Active' LIMIT 1"))


async def due(tx: Transaction, *, last: int, now: str, most: int) -> list[WebhookPosition]:
    """Active webhooks that nobody holds and that have log rows up to `last` to look at, or dead
    letters to send again, the longest waiting first.
    """
    rows = await tx.fetch(
        f"SELECT {_COLUMNS}, {_QUEUED} FROM webhook_positions p"
        " JOIN webhooks w ON w.uuid = p.webhook_uuid WHERE w.state = 'Active'"
        f" AND p.next_at <= ? AND p.held_until <= ? AND (p.position < ? OR {_HAS_QUEUED})"
        " ORDER BY p.next_at, p.position LIMIT ?",
        (now, now, last, most),
    )
    return [_position(row) for row in rows]


async def next_due(tx: Transaction, *, last: int, now: str) -> str:
    """The time at which the next webhook becomes due that waits after a failure, or that another
    server holds; "" for none.
    """
    later = "CASE WHEN p.next_at > p.held_until THEN p.next_at ELSE p.held_until END"
    rows = await tx.fetch(
        f"SELECT min({later}) FROM webhook_positions p"
        " JOIN webhooks w ON w.uuid = p.webhook_uuid WHERE w.state = 'Active'"
        f" AND {later} > ? AND (p.position < ? OR {_HAS_QUEUED})",
        (now, last),
    )
    return str(rows[0][0] or "")


async def counts(tx: Transaction) -> dict[str, int]:
    """Numbers of webhooks that are `active`, among them `failing`, and `paused`."""
    rows = await tx.fetch(
        "SELECT w.state, count(*), sum(CASE WHEN p.failures > 0 THEN 1 ELSE 0 END)"
        " FROM webhooks w LEFT JOIN webhook_positions p ON p.webhook_uuid = w.uuid GROUP BY w.state"
    )
    found = {str(row[0]): (int(row[1] or 0), int(row[2] or 0)) for row in rows}
    active, failing = found.get("Active", (0, 0))
    return {"active": active, "failing": failing, "paused": found.get("Paused", (0, 0))[0]}


async def pass_over(
    tx: Transaction, uuids: Sequence[str], *, position: int, to: int, now: str
) -> None:
    """Move webhooks at a position that nobody holds to a later one: nothing there is for them."""
    for chunk, marks in _parts(uuids):
        await tx.execute(
            "UPDATE webhook_positions SET position = ? WHERE position = ? AND held_until <= ?"
            f" AND webhook_uuid IN ({marks})",
            (to, position, now, *chunk),
        )


async def take(tx: Transaction, uuid: str, lease: WorkLease, *, now: str) -> bool:
    """Hold a webhook; False if another server holds it, or it is not due."""
    return await LEASES.take(tx, uuid, lease, now=now, condition="next_at <= ?", values=(now,))


async def save(tx: Transaction, position: WebhookPosition, lease: WorkLease) -> bool:
    """Store how far a webhook is, and hold it until a time; False if another one holds it or it
    was deleted: then nothing is stored.
    """
    changes: dict[str, Value] = {
        "position": position.position,
        "attempts": position.progress.attempts,
        "failures": position.progress.failures,
        "failing_since": position.progress.failing_since,
        "next_at": position.next_at,
        "delivered": position.delivered,
        "delivered_at": position.delivered_at,
        "fault": position.fault,
    }
    return await LEASES.renew(tx, position.webhook_uuid, lease, changes)


async def bury(tx: Transaction, uuid: str, letter: DeadLetter) -> None:
    """Store a dead letter, in place of an earlier one of the event."""
    await tx.execute(
        "INSERT INTO webhook_letters (webhook_uuid, log_id, event_type, is_queued, fault,"
        " failed_at) VALUES (?, ?, ?, 0, ?, ?) ON CONFLICT (webhook_uuid, log_id) DO UPDATE SET"
        " is_queued = 0, fault = excluded.fault, failed_at = excluded.failed_at",
        (uuid, letter.log_id, letter.event_type, letter.fault, letter.failed_at),
    )


async def unbury(tx: Transaction, uuid: str, log_id: int) -> None:
    """Delete a dead letter."""
    await tx.execute(
        "DELETE FROM webhook_letters WHERE webhook_uuid = ? AND log_id = ?", (uuid, log_id)
    )


async def letters(tx: Transaction, uuid: str, *, most: int) -> list[DeadLetter]:
    """The first dead letters of a webhook, in the order of their events."""
    rows = await tx.fetch(
        "SELECT log_id, event_type, is_queued, fault, failed_at FROM webhook_letters"
        " WHERE webhook_uuid = ? ORDER BY log_id LIMIT ?",
        (uuid, most),
    )
    return [
        DeadLetter(
            log_id=int(row[0] or 0),
            event_type=str(row[1]),
            is_queued=bool(row[2]),
            fault=str(row[3]),
            failed_at=str(row[4]),
        )
        for row in rows
    ]


async def note_attempt(tx: Transaction, uuid: str, attempt: DeliveryAttempt) -> None:
    """Store an attempt of a webhook that the caller holds, and delete the oldest ones."""
    await tx.execute(
        "INSERT INTO webhook_attempts (webhook_uuid, number, log_id, event_type, outcome, status,"
        " fault, tried_at) VALUES (?, (SELECT coalesce(max(number), 0) + 1 FROM webhook_attempts"
        " WHERE webhook_uuid = ?), ?, ?, ?, ?, ?, ?)",
        (
            uuid,
            uuid,
            attempt.log_id,
            attempt.event_type,
            attempt.outcome,
            attempt.status,
            attempt.fault,
            attempt.tried_at,
        ),
    )
    await tx.execute(
        "DELETE FROM webhook_attempts WHERE webhook_uuid = ? AND number <= (SELECT max(number)"
        f" FROM webhook_attempts WHERE webhook_uuid = ?) - {KEPT_ATTEMPTS}",
        (uuid, uuid),
    )


async def attempts(tx: Transaction, uuid: str) -> list[DeliveryAttempt]:
    """The latest attempts of a webhook, the last one first."""
    rows = await tx.fetch(
        "SELECT log_id, event_type, outcome, status, fault, tried_at FROM webhook_attempts"
        " WHERE webhook_uuid = ? ORDER BY number DESC",
        (uuid,),
    )
    return [
        DeliveryAttempt(
            log_id=int(row[0] or 0),
            event_type=str(row[1]),
            outcome=str(row[2]),
            status=int(row[3] or 0),
            fault=str(row[4]),
            tried_at=str(row[5]),
        )
        for row in rows
    ]


async def queue_letters(tx: Transaction, uuid: str, log_ids: Sequence[int] | None) -> int:
    """Queue dead letters to be sent again, None for all; how many. Their webhook is due at once."""
    changed = 0
    if log_ids is None:
        changed = await tx.execute(
            "UPDATE webhook_letters SET is_queued = 1 WHERE webhook_uuid = ? AND is_queued = 0",
            (uuid,),
        )
    for chunk, marks in _parts(log_ids or ()):
        changed += await tx.execute(
            "UPDATE webhook_letters SET is_queued = 1 WHERE webhook_uuid = ? AND is_queued = 0"
            f" AND log_id IN ({marks})",
            (uuid, *chunk),
        )
    if changed:
        await tx.execute(
            "UPDATE webhook_positions SET next_at = '' WHERE webhook_uuid = ?", (uuid,)
        )
    return changed


def _parts(values: Sequence[_Value]) -> Iterator[tuple[Sequence[_Value], str]]:
    """Values for one statement each, with their placeholders."""
    for at in range(0, len(values), _TOGETHER):
        part = values[at : at + _TOGETHER]
        yield part, ", ".join("?" for _ in part)


def _position(row: Row) -> WebhookPosition:
    return WebhookPosition(
        webhook_uuid=str(row[0]),
        position=int(row[1] or 0),
        progress=DeliveryProgress(
            attempts=int(row[2] or 0),
            failures=int(row[3] or 0),
            failing_since=str(row[4]),
            dead=int(row[9] or 0),
        ),
        next_at=str(row[5]),
        delivered=int(row[6] or 0),
        delivered_at=str(row[7]),
        fault=str(row[8]),
        queued=int(row[10] or 0),
    )

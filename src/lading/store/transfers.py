"""Transfers of tasks (GA4GH TES): work that servers share, and the files that it delivered.

- `task_transfers` has one row for each task with inputs or outputs by URL. A server that works on
  it holds it for some seconds and renews that; work of a server that ended is taken by another.
- `task_deliveries` has one row for each delivered file: a delivery goes on after a restart.
- `task_keys` has the Idempotency-Key of each create of a day, so that of two servers that get the
  same key one creates the task.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Final

from lading.core.tes.mapping import keeps_on_failure
from lading.core.tes.transfers import (
    ENDED,
    DeliveredFile,
    EndedTask,
    TaskTransfer,
    TransferPhase,
    WaitingTransfer,
)
from lading.store.database import Database, Row
from lading.store.leases import LeaseTable, WorkLease

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS task_transfers (request_uuid TEXT PRIMARY KEY,"
    " user_uuid TEXT NOT NULL, phase TEXT NOT NULL, note TEXT NOT NULL, failures INTEGER NOT NULL,"
    " document TEXT NOT NULL, holder TEXT NOT NULL, held_until TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS task_transfers_phase ON task_transfers (phase)",
    "CREATE TABLE IF NOT EXISTS task_deliveries (request_uuid TEXT NOT NULL, url TEXT NOT NULL,"
    " size BIGINT NOT NULL, checksum TEXT NOT NULL, PRIMARY KEY (request_uuid, url))",
    "CREATE TABLE IF NOT EXISTS task_keys (digest TEXT PRIMARY KEY, claimed_at TEXT NOT NULL,"
    " request_uuid TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS task_keys_claimed_at ON task_keys (claimed_at)",
)
_COLUMNS: Final = "request_uuid, user_uuid, phase, note, failures"
_IN_WORK: Final = f"phase IN ('{TransferPhase.FETCHING}', '{TransferPhase.DELIVERING}')"
_LEASES: Final = LeaseTable("task_transfers", "request_uuid", _IN_WORK)
# Values of one statement.
_TOGETHER: Final = 500


class StoredTransfers:
    """The transfers, deliveries and keys of all servers of a site."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, transfer: TaskTransfer) -> None:
        """Store a new transfer; nothing changes if there is one of the request."""
        async with self._database.writing() as tx:
            await tx.execute(
                f"INSERT INTO task_transfers ({_COLUMNS}, document, holder, held_until)"
                " VALUES (?, ?, ?, ?, ?, ?, '', '') ON CONFLICT DO NOTHING",
                (
                    transfer.request_uuid,
                    transfer.user_uuid,
                    transfer.phase,
                    transfer.note,
                    transfer.failures,
                    json.dumps([transfer.task, transfer.request], separators=(",", ":")),
                ),
            )

    async def read(self, uuids: Collection[str]) -> dict[str, TaskTransfer]:
        """The transfers of requests, without their documents."""
        requested, rows = list(uuids), list[Row]()
        async with self._database.reading() as tx:
            for start in range(0, len(requested), _TOGETHER):
                chunk = requested[start : start + _TOGETHER]
                marks = ", ".join("?" for _ in chunk)
                rows += await tx.fetch(
                    f"SELECT {_COLUMNS} FROM task_transfers WHERE request_uuid IN ({marks})", chunk
                )
        return {transfer.request_uuid: transfer for transfer in map(_transfer, rows)}

    async def in_phase(self, phase: TransferPhase, *, most: int) -> list[TaskTransfer]:
        """The first transfers in a phase, without their documents, newest requests first."""
        async with self._database.reading() as tx:
            rows = await tx.fetch(
                f"SELECT {_COLUMNS} FROM task_transfers WHERE phase = ?"
                " ORDER BY request_uuid DESC LIMIT ?",
                (phase, most),
            )
        return [_transfer(row) for row in rows]

    async def ended(self, *, most: int) -> list[EndedTask]:
        """The first tasks in the phase RUNNING whose requests are Final or were deleted."""
        async with self._database.reading() as tx:
            rows = await tx.fetch(
                "SELECT t.request_uuid, r.uuid, c.state, r.output_uuid, r.priority, t.document"
                " FROM task_transfers t"
                " LEFT JOIN container_requests r ON r.uuid = t.request_uuid"
                " LEFT JOIN containers c ON c.uuid = r.container_uuid"
                " WHERE t.phase = ? AND (r.uuid IS NULL OR r.state = 'Final') LIMIT ?",
                (TransferPhase.RUNNING, most),
            )
        return [
            EndedTask(
                request_uuid=str(uuid),
                is_deleted=present_uuid is None,
                container_state=str(state or ""),
                output_uuid=str(output or ""),
                keeps=keeps_on_failure(json.loads(str(document))[0]),
                is_cancelled=priority == 0,
            )
            for uuid, present_uuid, state, output, priority, document in rows
        ]

    async def waiting(self, *, now: str, most: int) -> list[WaitingTransfer]:
        """Transfers that nobody holds, the longest waiting first, of each user at most `most`."""
        # Work whose holder has not renewed it in time counts as held by nobody: its server was
        # killed.
        async with self._database.reading() as tx:
            rows = await tx.fetch(
                "SELECT request_uuid, user_uuid FROM (SELECT request_uuid, user_uuid, ROW_NUMBER()"
                " OVER (PARTITION BY user_uuid ORDER BY request_uuid) AS turn FROM task_transfers"
                f" WHERE {_IN_WORK} AND held_until <= ?) AS found"
                " WHERE turn <= ? ORDER BY request_uuid",
                (now, most),
            )
        return [WaitingTransfer(str(uuid), str(user)) for uuid, user in rows]

    async def take(
        self, uuids: Sequence[str], *, holder: str, now: str, until: str
    ) -> list[TaskTransfer]:
        """Take the transfers that nobody holds. The holder has them until a time."""
        lease = WorkLease(holder=holder, held_until=until)
        async with self._database.writing() as tx:
            taken = [uuid for uuid in uuids if await _LEASES.take(tx, uuid, lease, now=now)]
            if not taken:
                return []
            marks = ", ".join("?" for _ in taken)
            rows = await tx.fetch(
                f"SELECT {_COLUMNS}, document FROM task_transfers"
                f" WHERE request_uuid IN ({marks}) ORDER BY request_uuid",
                taken,
            )
        return [_transfer(row) for row in rows]

    async def renew(self, uuid: str, *, holder: str, until: str, note: str) -> bool:
        """Hold a transfer until a later time; False if it was ended or taken by another."""
        async with self._database.writing() as tx:
            lease = WorkLease(holder=holder, held_until=until)
            return await _LEASES.renew(tx, uuid, lease, {"note": note})

    async def move(
        self,
        uuid: str,
        old: Sequence[TransferPhase],
        new: TransferPhase,
        *,
        note: str = "",
        failures: int = 0,
        held_until: str = "",
    ) -> bool:
        """Bring a transfer from one of the phases `old` to another, held by nobody until a time;
        False if it is in none of them.
        """
        marks = ", ".join("?" for _ in old)
        # A task that has ended needs its document no more, which may have megabytes.
        emptied = ", document = '[{},{}]'" if new in ENDED else ""
        async with self._database.writing() as tx:
            changed = await tx.execute(
                "UPDATE task_transfers SET phase = ?, note = ?, failures = ?, holder = '',"
                f" held_until = ?{emptied} WHERE request_uuid = ? AND phase IN ({marks})",
                (new, note, failures, held_until, uuid, *old),
            )
        return changed == 1

    async def sweep(self) -> int:
        """Delete the rows of requests that were deleted; the number of transfers."""
        gone = "NOT EXISTS (SELECT 1 FROM container_requests r WHERE r.uuid = request_uuid)"
        ended = ", ".join("?" for _ in ENDED)
        async with self._database.writing() as tx:
            await tx.execute(f"DELETE FROM task_deliveries WHERE {gone}")
            return await tx.execute(
                f"DELETE FROM task_transfers WHERE phase IN ({ended}) AND {gone}", tuple(ENDED)
            )

    async def deliveries(self, uuid: str) -> list[DeliveredFile]:
        """The files of a request that were delivered."""
        async with self._database.reading() as tx:
            rows = await tx.fetch(
                "SELECT url, size, checksum FROM task_deliveries WHERE request_uuid = ?"
                " ORDER BY url",
                (uuid,),
            )
        return [
            DeliveredFile(url=str(url), size=int(size or 0), checksum=str(checksum))
            for url, size, checksum in rows
        ]

    async def note_delivery(self, uuid: str, file: DeliveredFile) -> None:
        """Store that a file was delivered."""
        async with self._database.writing() as tx:
            await tx.execute(
                "INSERT INTO task_deliveries (request_uuid, url, size, checksum)"
                " VALUES (?, ?, ?, ?) ON CONFLICT (request_uuid, url)"
                " DO UPDATE SET size = excluded.size, checksum = excluded.checksum",
                (uuid, file.url, file.size, file.checksum),
            )

    async def claim_key(self, digest: str, *, now: str, since: str, stale: str) -> str | None:
        """Claim an Idempotency-Key: None if the caller is to create the task; else the uuid of the
        task, "" while another server creates it.

        A claim before `since` is forgotten, and one before `stale` without a task too.
        """
        async with self._database.writing() as tx:
            await tx.execute("DELETE FROM task_keys WHERE claimed_at <= ?", (since,))
            await tx.execute(
                "DELETE FROM task_keys WHERE digest = ? AND request_uuid = '' AND claimed_at <= ?",
                (digest, stale),
            )
            inserted = await tx.execute(
                # The caller that inserts the row creates the task; all others find it.
                "INSERT INTO task_keys (digest, claimed_at, request_uuid) VALUES (?, ?, '')"
                " ON CONFLICT DO NOTHING",
                (digest, now),
            )
            if inserted:
                return None
            rows = await tx.fetch("SELECT request_uuid FROM task_keys WHERE digest = ?", (digest,))
        return str(rows[0][0])

    async def settle_key(self, digest: str, uuid: str) -> None:
        """Store the task of a key; "" frees the key after a create that failed."""
        async with self._database.writing() as tx:
            if uuid:
                await tx.execute(
                    "UPDATE task_keys SET request_uuid = ? WHERE digest = ?", (uuid, digest)
                )
            else:
                await tx.execute(
                    "DELETE FROM task_keys WHERE digest = ? AND request_uuid = ''", (digest,)
                )


def _transfer(row: Row) -> TaskTransfer:
    task, request = json.loads(str(row[5])) if len(row) > 5 else ({}, {})
    return TaskTransfer(
        task=task,
        request=request,
        request_uuid=str(row[0]),
        user_uuid=str(row[1]),
        phase=TransferPhase(str(row[2])),
        note=str(row[3]),
        failures=int(row[4] or 0),
    )

"""Log rows of changes, and the events that are published from them.

Each change of a record writes a row to `logs` in the same transaction, and publishes an event once
it is committed. The row of a creation or a deletion holds the whole record; that of a change holds
the changed attributes and those that listeners filter by (LISTENED). Secrets and manifests are left
out.

`Relay` publishes the events of all processes that share a database: a message of the database means
only that there are new rows, and the relay reads the rows after the last one that it has seen, so
that no event is missed while its connection was broken. Rows become visible in the order of their
numbers (`store.database`).

Source: docs/spec/api, sections Log rows and Websocket.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Final

from lading.api.events.event_bus import LogEvent
from lading.api.http import etag
from lading.api.services import ApiServices
from lading.core.errors import Unavailable
from lading.core.ids import Infix
from lading.core.records.expressions import Column, Compare, Query, SortKey
from lading.core.records.record_types import KINDS, LOGS, TOKENS
from lading.core.records.schema import Record, RecordType, Type
from lading.store import records
from lading.store.database import Transaction
from lading.telemetry import event

LISTENED: Final = (
    "is_trashed",
    "name",
    "owner_uuid",
    "portable_data_hash",
    "requesting_container_uuid",
    "state",
)


async def created(
    tx: Transaction, services: ApiServices, kind: RecordType, record: Record, *, user_uuid: str
) -> None:
    """Write the log row of a new record."""
    new = _logged(services, kind, record)
    properties = {"new_etag": etag(record), "new_attributes": new}
    await _write(tx, services, record, "create", user_uuid, properties, at=record["modified_at"])


async def deleted(
    tx: Transaction, services: ApiServices, kind: RecordType, record: Record, *, user_uuid: str
) -> None:
    """Write the log row of a deleted record."""
    _note_token(tx, services, kind)
    old = _logged(services, kind, record)
    await _write(
        tx, services, record, "delete", user_uuid, {"old_etag": etag(record), "old_attributes": old}
    )


async def changed(
    tx: Transaction,
    services: ApiServices,
    kind: RecordType,
    old: Record,
    new: Record,
    *,
    user_uuid: str,
) -> None:
    """Write the log row of a change of a record from `old` to `new`, both whole."""
    _note_token(tx, services, kind)
    fields, unlogged = kind.by_name, services.config.AuditLogs.UnloggedAttributes
    names = [
        name
        for name in new
        # These are in each event, so that a listener need not read the record: changed or not.
        if name in LISTENED
        or (
            old.get(name) != new[name]
            and not (fields[name].hidden or fields[name].unlogged)
            and name not in unlogged
        )
    ]
    properties = {
        "old_etag": etag(old),
        "old_attributes": {name: old.get(name) for name in names},
        "new_etag": etag(new),
        "new_attributes": {name: new[name] for name in names},
    }
    await _write(tx, services, new, "update", user_uuid, properties)


async def note(
    tx: Transaction,
    services: ApiServices,
    record: Record,
    event_type: str,
    summary: str,
    properties: Record,
) -> None:
    """Write a log row of another type about a record."""
    row = await _store(tx, services, record, event_type, summary, services.system_user, properties)
    if is_event(row):
        tell(tx, services, row)


def _note_token(tx: Transaction, services: ApiServices, kind: RecordType) -> None:
    if kind is TOKENS:
        tx.after_commit(services.bus.note_token_change)


def _logged(services: ApiServices, kind: RecordType, record: Record) -> Record:
    unlogged = services.config.AuditLogs.UnloggedAttributes
    left = {one.name for one in kind.fields if one.unlogged}.union(unlogged)
    return {name: record[name] for name in kind.visible if name in record and name not in left}


async def _write(
    tx: Transaction,
    services: ApiServices,
    record: Record,
    event_type: str,
    user_uuid: str,
    properties: Record,
    *,
    at: str = "",
) -> None:
    summary = f"{event_type} of {record['uuid']}"
    row = await _store(tx, services, record, event_type, summary, user_uuid, properties, at=at)
    if is_event(row):
        tell(tx, services, row)


async def _store(
    tx: Transaction,
    services: ApiServices,
    record: Record,
    event_type: str,
    summary: str,
    user_uuid: str,
    properties: Record,
    *,
    at: str = "",
) -> Record:
    now = at or services.now()
    row: Record = {
        "uuid": services.new_uuid(Infix.LOG),
        "owner_uuid": user_uuid,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": user_uuid,
        "object_uuid": record["uuid"],
        "object_owner_uuid": record["owner_uuid"],
        "event_at": now,
        "event_type": event_type,
        "summary": summary,
        "properties": properties,
    }
    row["id"] = await records.add(tx, LOGS, row)
    return row


def tell(tx: Transaction, services: ApiServices, row: Record) -> None:
    """Publish the event of a log row once the row is committed: on the bus of this process, or by
    the `Relay` of each process where several share the database.
    """
    if services.database.shared:
        tx.announce()
    else:
        event = make_event(row, listened(row["properties"]))
        tx.after_commit(lambda: services.bus.publish(event))


def wake(tx: Transaction, services: ApiServices) -> None:
    """Wake the watchers of the buses of all processes once the transaction is committed."""
    if services.database.shared:
        tx.announce()
    else:
        tx.after_commit(services.bus.wake)


def is_event(row: Record) -> bool:
    """Whether a log row has an event: each row about a record has, unless the record is a token."""
    return row["object_uuid"] is not None and row["object_uuid"][6:11] != TOKENS.infix


def listened(properties: Record) -> Record:
    """The properties of a log row that its event has too."""
    if "text" in properties:
        return properties
    return {
        side: {name: properties[side][name] for name in LISTENED if name in properties[side]}
        for side in ("old_attributes", "new_attributes")
        if side in properties
    }


def make_event(row: Record, properties: Record) -> LogEvent:
    """The event of a log row."""
    return LogEvent(
        id=row["id"],
        uuid=row["uuid"],
        object_uuid=row["object_uuid"],
        object_owner_uuid=row["object_owner_uuid"],
        object_kind=KINDS.get(str(row["object_uuid"])[6:11]),
        event_type=row["event_type"],
        event_at=row["event_at"],
        properties=properties,
    )


# Rows that are read at a time.
_PAGE: Final = 500
# Seconds before another try after the database failed.
_PAUSE: Final = 1.0
_NAMES: Final = tuple(one.name for one in LOGS.columns)
_logger = logging.getLogger("lading.api.events.audit")


async def latest(services: ApiServices) -> int:
    """The number of the last log row; 0 when there is none."""
    query = Query(order=(SortKey("id", descending=True),), select=("id",), limit=1)
    async with services.database.reading() as tx:
        rows = await records.search(tx, services.database.dialect, LOGS, query)
    return int(rows[0]["id"]) if rows else 0


class Relay:
    """Publishes the events that were committed after `start` on the bus of this process.

    `page` rows are read at a time; after a fault the database is asked again `pause` seconds later.
    """

    def __init__(self, services: ApiServices) -> None:
        self.page, self.pause = _PAGE, _PAUSE
        self._services = services
        self._last = 0

    async def start(self) -> None:
        """Remember the last log row: events after it are published."""
        # Earlier events are history: clients read records when they connect.
        self._last = await latest(self._services)

    async def run(self) -> None:
        """Publish events until cancelled; return at once when the database is not shared."""
        async with aclosing(self._services.database.announcements()) as announcements:
            async for _ in announcements:
                await self._insist()
                # Some announcements have no row: dead letters that are sent again.
                self._services.bus.wake()

    async def _insist(self) -> None:
        while True:
            try:
                await self._catch_up()
            except Unavailable as error:
                event(_logger, "events are late", error=error)
                await asyncio.sleep(self.pause)
            else:
                return

    async def _catch_up(self) -> None:
        database, full = self._services.database, True
        while full:
            after = Compare(Column("id", Type.INTEGER), ">", self._last)
            query = Query(where=(after,), order=(SortKey("id"),), select=_NAMES, limit=self.page)
            async with database.reading() as tx:
                rows = await records.search(tx, database.dialect, LOGS, query)
            for row in rows:
                # Row by row: after a fault the rest is published, and nothing twice.
                self._last = row["id"]
                if is_event(row):
                    self._services.bus.publish(make_event(row, listened(row["properties"])))
            full = len(rows) == self.page

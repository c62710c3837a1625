"""Log rows of changes, and the events that are published from them.

Each change of a record writes a row to `logs` in the same transaction, and publishes an event once
it is committed. The row of a creation or a deletion holds the whole record; that of a change holds
the changed attributes and those that listeners filter by (LISTENED). Secrets and manifests are left
out.

`Relay` publishes the events of all processes that share a database: a message of the database means
only that there are new rows. The relay reads the rows after the last row that it has seen, so that
no event is missed while its connection was broken. Rows become visible in the order of their
numbers (`store.database`).

Source: docs/spec/api, sections Log rows and Websocket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, TypeAlias

from lading.api.events.audiences import Audiences
from lading.api.events.listeners import LogEvent
from lading.api.serializer import etag, etag_of
from lading.api.server.identifiers import Identifiers
from lading.api.services import ApiServices, Events
from lading.config.site import Config
from lading.core.containers.container import DecisionKind
from lading.core.errors import Unavailable
from lading.core.ids import Infix
from lading.core.records import log_texts
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import Column, Compare, Query, SortKey
from lading.core.records.log_rows import LogRowType
from lading.core.records.record_types import KINDS, LOGS, TOKENS
from lading.core.records.schema import JSON, Record, RecordType, Type
from lading.core.records.service_records import WEBHOOKS
from lading.process.concurrency import together
from lading.process.telemetry import event
from lading.store import records
from lading.store.database import Database, Transaction

LISTENED: Final = (
    "is_trashed",
    "name",
    "owner_uuid",
    "portable_data_hash",
    "requesting_container_uuid",
    "state",
)
_SENT: Final = (*LISTENED, "locked_by_uuid")
"""The attributes in events, as far as the log rows have them: dispatchers learn who has locked a
container.
"""


async def created(
    tx: Transaction, services: ApiServices, kind: RecordType, record: Record, *, user_uuid: str
) -> None:
    """Write the log row of a new record."""
    if kind is WEBHOOKS:
        tx.after_commit(services.events.wakeups.webhooks.set)
    new = _logged(services.config, kind, record)
    properties = {"new_etag": etag(record), "new_attributes": new}
    await _write(
        tx, services, record, LogRowType.CREATE, user_uuid, properties, at=record["modified_at"]
    )


async def deleted(
    tx: Transaction, services: ApiServices, kind: RecordType, record: Record, *, user_uuid: str
) -> None:
    """Write the log row of a deleted record."""
    if kind is TOKENS:
        _note_token(tx, services.events)
    old = _logged(services.config, kind, record)
    await _write(
        tx,
        services,
        record,
        LogRowType.DELETE,
        user_uuid,
        {"old_etag": etag(record), "old_attributes": old},
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
    if kind is TOKENS:
        _note_token(tx, services.events)
    if kind is WEBHOOKS:
        tx.after_commit(services.events.wakeups.webhooks.set)
    properties = _difference(services.config, kind, old, new)
    former = old["owner_uuid"] if old["owner_uuid"] != new["owner_uuid"] else None
    await _write(tx, services, new, LogRowType.UPDATE, user_uuid, properties, former=former)


_WRITTEN: Final = (
    "uuid", "object_uuid", "object_owner_uuid", "summary", "properties", "event_at", "created_at",
    "modified_at", "owner_uuid", "modified_by_user_uuid", "event_type",
)  # fmt: skip
_STORED: Final = (*_WRITTEN, "shortened")
LogRow: TypeAlias = tuple[JSON, ...]
"""Values of a log row that is not stored yet, in the order of `_WRITTEN`."""


def rows_of_change(
    identifiers: Identifiers,
    config: Config,
    kind: RecordType,
    rows: Sequence[Record],
    values: Record,
    *,
    user_uuid: str,
) -> list[LogRow]:
    """The log rows of the same change of many records, for `write_all`.

    `rows` are the records before the change, or as many of their attributes as contain LISTENED and
    those that the change names; `values` has `modified_at`, the time of the log rows too.
    """
    if not rows:
        return []
    # What does not depend on the single record is found once: there are many.
    at = values["modified_at"]
    listened_names = [name for name in rows[0] if name in LISTENED]
    logged = [
        name for name in values if name not in listened_names and _is_logged(config, kind, name)
    ]
    common = (at, at, at, user_uuid, user_uuid, LogRowType.UPDATE)
    log_rows = []
    for uuid, old in zip(identifiers.new_uuids(Infix.LOG, len(rows)), rows, strict=True):
        changed = [name for name in logged if old.get(name) != values[name]]
        former = {name: old[name] for name in listened_names}
        new = {name: values.get(name, former[name]) for name in listened_names}
        for name in changed:
            former[name], new[name] = old.get(name), values[name]
        object_uuid = old["uuid"]
        properties = {
            "old_etag": etag(old),
            "old_attributes": former,
            "new_etag": etag_of(at, object_uuid),
            "new_attributes": new,
        }
        summary = f"update of {object_uuid}"
        log_rows.append((uuid, object_uuid, old["owner_uuid"], summary, properties, *common))
    return log_rows


async def write_all(
    tx: Transaction, database: Database, events: Events, rows: Sequence[LogRow]
) -> None:
    """Write many log rows of changes, at least one, and publish their events."""
    since = database.short_logs_since
    stored = [_stored_values(values, since=since) for values in rows]
    first = await records.add_all(tx, LOGS, _STORED, stored)
    if database.shared:
        tx.announce()
    else:
        tx.after_commit(lambda: _publish_all(events, rows, first))


def _stored_values(values: LogRow, *, since: str) -> LogRow:
    """The values of `_STORED` for those of `_WRITTEN`."""
    return tuple(log_texts.stored(dict(zip(_WRITTEN, values, strict=True)), since=since).values())


def _is_logged(config: Config, kind: RecordType, name: str) -> bool:
    """Whether log rows show the changes of an attribute."""
    field = kind.by_name[name]
    return not (field.hidden or field.unlogged or name in config.AuditLogs.UnloggedAttributes)


def _publish_all(events: Events, rows: Sequence[LogRow], first: int) -> None:
    """Publish the events of many log rows, whose numbers begin with `first`, on the bus of this
    process.
    """
    # Without a listener the watchers are woken once for all rows.
    if events.bus.listening:
        for number, values in enumerate(rows, first):
            row: Record = {**dict(zip(_WRITTEN, values, strict=True)), "id": number}
            events.bus.publish(make_event(row, listened(row["properties"])))
    events.bus.wake()


def _difference(config: Config, kind: RecordType, old: Record, new: Record) -> Record:
    """The properties of the log row of a change."""
    names = [
        name
        for name in new
        # These are in each event, so that a listener need not read the record: changed or not.
        if name in LISTENED or (old.get(name) != new[name] and _is_logged(config, kind, name))
    ]
    return {
        "old_etag": etag(old),
        "old_attributes": {name: old.get(name) for name in names},
        "new_etag": etag(new),
        "new_attributes": {name: new[name] for name in names},
    }


async def note(
    tx: Transaction,
    services: ApiServices,
    record: Record,
    event_type: LogRowType | DecisionKind,
    summary: str,
    properties: Record,
    *,
    at: str = "",
) -> None:
    """Write a log row of another type about a record; its time is `at`, or else now."""
    user = services.ids.system_user
    await _write(tx, services, record, event_type, user, properties, summary=summary, at=at)


def _note_token(tx: Transaction, events: Events) -> None:
    tx.after_commit(events.bus.note_token_change)
    # The containers that a dispatcher holds with it have lost their dispatcher.
    tx.after_commit(events.wakeups.wake)


def _logged(config: Config, kind: RecordType, record: Record) -> Record:
    unlogged = config.AuditLogs.UnloggedAttributes
    left = {field.name for field in kind.fields if field.unlogged}.union(unlogged)
    return {name: record[name] for name in kind.visible if name in record and name not in left}


async def _write(
    tx: Transaction,
    services: ApiServices,
    record: Record,
    event_type: LogRowType | DecisionKind,
    user_uuid: str,
    properties: Record,
    *,
    summary: str = "",
    at: str = "",
    former: str | None = None,
) -> None:
    """Store a log row about a record; its event is published once it is committed."""
    has_event, now = _has_event(record["uuid"]), at or services.clock.now()
    row: Record = {
        "uuid": services.ids.new_uuid(Infix.LOG),
        "owner_uuid": user_uuid,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": user_uuid,
        "object_uuid": record["uuid"],
        "object_owner_uuid": record["owner_uuid"],
        "event_at": now,
        "event_type": event_type,
        "summary": summary or f"{event_type} of {record['uuid']}",
        "properties": properties,
        "former_owner_uuid": former,
    }
    stored = log_texts.stored(row, since=services.database.short_logs_since)
    row["id"] = await records.add(tx, LOGS, stored)
    if has_event and services.database.shared:
        tx.announce()
    elif has_event:
        tx.after_commit(partial(_publish, services.events, row))


def tell(tx: Transaction, database: Database, events: Events, row: Record) -> None:
    """Publish the event of a log row once the row is committed: on the bus of this process, or by
    the `Relay` of each process where several share the database.
    """
    if database.shared:
        tx.announce()
    else:
        tx.after_commit(partial(_publish, events, row))


def _publish(events: Events, row: Record) -> None:
    # Made after the commit: other writes need not wait for it.
    events.bus.publish(make_event(row, listened(row["properties"])))


def wake(tx: Transaction, database: Database, events: Events) -> None:
    """Wake the watchers of the buses of all processes once the transaction is committed."""
    if database.shared:
        tx.announce()
    else:
        tx.after_commit(events.bus.wake)


def is_event(row: Record) -> bool:
    """Whether a log row has an event: each row about a record has, unless the record is a token."""
    return _has_event(row["object_uuid"])


def _has_event(object_uuid: str | None) -> bool:
    return object_uuid is not None and object_uuid[6:11] != TOKENS.infix


def listened(properties: Record) -> Record:
    """The properties of a log row that its event has too."""
    if "text" in properties:
        return properties
    return {
        side: {name: properties[side][name] for name in _SENT if name in properties[side]}
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
        record=row["properties"].get("new_attributes", {}) if _is_new_container(row) else {},
    )


def _is_new_container(row: Record) -> bool:
    return row["event_type"] == "create" and str(row["object_uuid"])[6:11] == CONTAINERS.infix


# Rows that are read at a time.
_PAGE: Final = 500
_MOST_BEHIND: Final = 5000
# Seconds before another try after the database failed.
_PAUSE: Final = 1.0
_NAMES: Final = tuple(column.name for column in LOGS.columns)
_logger = logging.getLogger("lading.api.events.audit")


async def latest(database: Database) -> int:
    """The number of the last log row; 0 when there is none."""
    async with database.reading() as tx:
        return await latest_in(tx)


async def latest_in(tx: Transaction) -> int:
    """The number of the last log row that a transaction sees; 0 when there is none. It grows with
    each change of a record.
    """
    query = Query(order=(SortKey("id", descending=True),), select=("id",), limit=1)
    rows = await records.search(tx, tx.dialect, LOGS, query)
    return int(rows[0]["id"]) if rows else 0


class Relay:
    """Publishes the events that were committed after `start` on the bus of this process.

    `page` rows are read at a time; after a fault the database is asked again `pause` seconds later.
    Where more than `most_behind` rows are left, listeners are dropped: their clients read the
    records again, as after any broken connection.
    """

    def __init__(self, services: ApiServices) -> None:
        self.page, self.pause, self.most_behind = _PAGE, _PAUSE, _MOST_BEHIND
        self._services = services
        self._audiences = Audiences(services)
        self._last = 0

    async def start(self) -> None:
        """Remember the last log row: events after it are published."""
        # Earlier events are history: clients read records when they connect.
        self._last = await latest(self._services.database)

    async def run(self) -> None:
        """Publish events, and hand them to the users who listen, until cancelled."""
        await together(self._relay(), self._audiences.run())

    async def _relay(self) -> None:
        """Publish events; return at once when the database is not shared."""
        async with aclosing(self._services.database.announcements()) as announcements:
            async for _ in announcements:
                await self._insist()
                # Some announcements have no row: dead letters that are sent again.
                self._services.events.bus.wake()

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
        database, full = self._services.database, False
        while True:
            # Looked for only then: with a listener a few rows are read at once.
            if (full or not self._services.events.bus.listening) and await self._skip():
                return
            after = Compare(Column("id", Type.INTEGER), ">", self._last)
            query = Query(where=(after,), order=(SortKey("id"),), select=_NAMES, limit=self.page)
            async with database.reading() as tx:
                rows = await records.search(tx, tx.dialect, LOGS, query)
            for row in rows:
                # Row by row: after a fault the rest is published, and nothing twice.
                self._last = row["id"]
                if is_event(row):
                    self._services.events.bus.publish(make_event(row, listened(row["properties"])))
            full = len(rows) == self.page
            if not full:
                return

    async def _skip(self) -> bool:
        """Leave out the events that nobody can follow; whether that is all of them. There is no
        listener, or there are far more events than a listener's queue takes, as when a million
        requests are cancelled.
        """
        bus = self._services.events.bus
        newest = await latest(self._services.database)
        if not bus.listening:
            # Who listens from now on has yet to read the records, as these rows left them.
            self._last = newest
            return True
        if newest - self._last > self.most_behind:
            bus.lose()
            # The last event ends the wait of each listener.
            self._last = newest - 1
        return False

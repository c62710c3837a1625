"""Sends the events of all webhooks, one after another for each, until it is stopped.

The log is the queue: each webhook has a position in it, which is stored after each event
(`store.webhooks`). So events of the time in which no server ran are sent too, and an event may be
sent twice when a server ends between an answer and the commit, never left out. Several servers of
one database share the webhooks: each is held by one of them at a time.

The module `core.webhooks.schedule` decides the step after an attempt. An event is sent if the user
of the webhook can read its record at that moment. Source: docs/spec/webhooks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Final

from lading.api.events.audit import is_event, latest, listened, make_event, wake
from lading.api.events.event_reader import EventReader
from lading.api.events.listeners import HeardEvent, LogEvent
from lading.api.metrics import METRICS
from lading.api.resources import generic
from lading.api.services import ApiServices
from lading.api.webhooks.receivers import WebhookSender
from lading.api.webhooks.run_ends import RunEndTeller
from lading.core.ids import is_user
from lading.core.quantities import later, parse_time
from lading.core.records.access import Principal
from lading.core.records.cloud_events import cloud_event, event_name
from lading.core.records.expressions import Column, Compare, Query, SortKey
from lading.core.records.permissions import Level
from lading.core.records.record_types import LOGS, USERS
from lading.core.records.schema import Record, Type
from lading.core.records.service_records import WEBHOOKS
from lading.core.webhooks.schedule import (
    Answer,
    RetryRules,
    Verdict,
    WaitingWebhook,
    decide,
    decide_again,
    next_webhooks,
)
from lading.core.webhooks.subscription import WebhookState, read_subscription
from lading.process.concurrency import wait_at_most
from lading.process.telemetry import event
from lading.store import permission_queries, records, run_ends, webhooks
from lading.store.background_work import WorkLoop, WorkTasks
from lading.store.database import Transaction
from lading.store.leases import WorkLease
from lading.store.webhooks import DeadLetter, DeliveryAttempt, WebhookPosition

_logger = logging.getLogger("lading.api.webhooks")
# Seconds after which a server looks for events that it was not told of.
_LONGEST_WAIT: Final = 60.0
# Seconds between two looks at least, and where no webhook is active: a busy server has hundreds of
# events a second.
_LEAST_PAUSE: Final = 0.05
_UNUSED_PAUSE: Final = 1.0
# Seconds for which a webhook sends before others have its place.
_TURN: Final = 20.0
# Seconds for which a webhook is held, beside the longest delivery; it is renewed after each.
_HELD: Final = 30.0
# Rows of the log that are read at a time, and webhooks that are looked at.
_PAGE: Final = 100
_MOST_DUE: Final = 1000
_NAMES: Final = tuple(column.name for column in LOGS.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NextEvent:
    """The next event of a webhook: `log_id` is the position after it, `body` the CloudEvent or
    None when the rows up to there have none for it. `is_letter`: a dead letter is sent again.
    """

    log_id: int
    body: Record | None = None
    is_letter: bool = False


class WebhookWorker:
    """Sends until `run` is cancelled. `most` webhooks at a time, `timeout` seconds are the longest
    delivery; `chance()` is a random number from 0 to 1. Must be used within one event loop.
    """

    def __init__(
        self,
        services: ApiServices,
        sender: WebhookSender,
        *,
        rules: RetryRules,
        most: int,
        timeout: float,
        chance: Callable[[], float],
    ) -> None:
        self._services = services
        self._sender = sender
        self._rules = rules
        self._most = most
        self._lease_time = _HELD + timeout
        self._chance = chance
        self._holder = ""
        self._is_crowded = False
        # Events, ends of deliveries and faults; more to send at once, which waits for no pause.
        self._woken = services.events.wakeups.webhooks
        self._hurried = asyncio.Event()
        self._loop = WorkLoop(_logger, "sending events failed")
        # After a failure the webhook is due at a time of its own.
        self._tasks: WorkTasks[WaitingWebhook] = WorkTasks(self._woken.set)
        self._until_next = 0.0
        self._run_ends = RunEndTeller(services)
        self._is_used = True
        self._is_watching = False

    async def run(self) -> None:
        """Send until cancelled; return at once where no events are sent.

        A look follows each event of the database, the time at which a webhook becomes due, and
        `_LONGEST_WAIT` seconds without either: a server whose database is idle reads nothing.
        """
        if self._most <= 0:
            return
        try:
            with ExitStack() as watching:
                look = partial(self._look_anew, watching)
                await self._loop.run(look, self._rest, sweep=self._sweep)
        finally:
            await self._tasks.close()

    async def _look_anew(self, watching: ExitStack) -> None:
        self._woken.clear()
        self._hurried.clear()
        await self.look()
        # A server alone hears of its first webhook by a wake-up (`events.audit`).
        if not self._is_watching and (self._is_used or self._services.database.shared):
            self._is_watching = True
            watching.enter_context(self._services.events.bus.watch(self._woken.set))
            # Events may have come since the look.
            self._woken.set()

    async def _rest(self, pause: float) -> None:
        """Wait for the next look."""
        least = _LEAST_PAUSE if self._is_used else _UNUSED_PAUSE
        await wait_at_most(self._hurried, max(least, pause))
        await wait_at_most(self._woken, self._until_next)

    def _hurry(self) -> None:
        """Look again without a pause: there is more to send."""
        self._hurried.set()
        self._woken.set()

    async def look(self) -> None:
        """Begin the deliveries that are due."""
        self._holder = self._holder or self._services.ids.entropy(8).hex()
        waiting = await self._waiting()
        chosen = next_webhooks(waiting, self._tasks.pieces, self._most)
        self._is_crowded = len(chosen) < len(waiting)
        for webhook in chosen:
            self._tasks.start(webhook.uuid, webhook, self._serve(webhook.uuid))

    async def settle(self) -> None:
        """Wait for the deliveries that are going on."""
        await self._tasks.settle()

    async def _sweep(self) -> None:
        async with self._services.database.writing() as tx:
            await webhooks.sweep(tx, now=self._services.clock.now())
            await run_ends.sweep(tx)

    async def _waiting(self) -> list[WaitingWebhook]:
        """The webhooks that have something to send. Others are moved on in the log: most events
        are for few webhooks, and the rows are read once for all that are at one place.
        """
        services = self._services
        self._until_next = _LONGEST_WAIT
        async with services.database.reading() as tx:
            self._is_used = await webhooks.has_active(tx)
        if not self._is_used:
            return []
        # It may write the rows that are looked at next.
        self._until_next = min(_LONGEST_WAIT, await self._run_ends.look())
        last, now = await latest(services.database), services.clock.now()
        async with services.database.reading() as tx:
            due = await webhooks.due(tx, last=last, now=now, most=_MOST_DUE)
            if next_at := await webhooks.next_due(tx, last=last, now=now):
                left = (parse_time(next_at) - parse_time(now)).total_seconds()
                self._until_next = min(left, self._until_next)
            uuids = [webhook_position.webhook_uuid for webhook_position in due]
            rows = await records.among(tx, WEBHOOKS, "uuid", uuids) if uuids else []
        webhooks_by_uuid = {str(row["uuid"]): row for row in rows}
        positioned: list[tuple[WebhookPosition, Record]] = [
            (webhook_position, webhooks_by_uuid[webhook_position.webhook_uuid])
            for webhook_position in due
            if webhook_position.webhook_uuid in webhooks_by_uuid
        ]
        waiting = {
            webhook_position.webhook_uuid
            for webhook_position, _ in positioned
            if webhook_position.queued
        }
        ordered = sorted(positioned, key=lambda pair: pair[0].position)
        for position, group in groupby(ordered, key=lambda pair: pair[0].position):
            waiting |= await self._look_at(position, list(group))
        return [
            WaitingWebhook(
                webhook_position.webhook_uuid,
                _user_of(webhook),
                webhook_position.progress.failures > 0,
            )
            for webhook_position, webhook in positioned
            if webhook_position.webhook_uuid in waiting
        ]

    async def _look_at(
        self, position: int, group: list[tuple[WebhookPosition, Record]]
    ) -> set[str]:
        """Webhooks at a position for which the next rows may have an event."""
        events, end = await self._read(position)
        interested, passed = set[str](), []
        for webhook_position, webhook in group:
            takes = read_subscription(webhook).takes
            if any(takes(_name(each), each.properties) for each in events):
                interested.add(webhook_position.webhook_uuid)
            elif end > position:
                passed.append(webhook_position.webhook_uuid)
        if passed:
            async with self._services.database.writing() as tx:
                now = self._services.clock.now()
                await webhooks.pass_over(tx, passed, position=position, to=end, now=now)
            if end - position >= _PAGE:
                self._hurry()
        return interested

    async def _read(self, position: int) -> tuple[list[LogEvent], int]:
        """The events of the first rows behind a position, and the number of the last of these
        rows.
        """
        after = Compare(Column("id", Type.INTEGER), ">", position)
        query = Query(where=(after,), order=(SortKey("id"),), select=_NAMES, limit=_PAGE)
        database = self._services.database
        async with database.reading() as tx:
            rows = await records.search(tx, tx.dialect, LOGS, query)
        events = [make_event(row, listened(row["properties"])) for row in rows if is_event(row)]
        return events, int(rows[-1]["id"]) if rows else position

    async def _serve(self, uuid: str) -> None:
        """Send the events of one webhook, for a while."""
        database, now = self._services.database, self._services.clock.now()
        with self._loop.boundary(uuid):
            async with database.writing() as tx:
                if not await webhooks.take(tx, uuid, self._lease(), now=now):
                    return
            goes_on = True
            try:
                ends = time.monotonic() + _TURN
                while goes_on and time.monotonic() < ends:
                    goes_on = await self._send_next(uuid)
            finally:
                async with database.writing() as tx:
                    await webhooks.LEASES.release(tx, uuid, self._holder)
                    if goes_on:
                        # This server ends, or others wait: another one goes on.
                        wake(tx, self._services.database, self._services.events)
            if goes_on or self._is_crowded:
                # Not after a fault, which would come again at once.
                self._hurry()

    async def _send_next(self, uuid: str) -> bool:
        """Send the next event of a webhook; whether another may follow at once."""
        async with self._services.database.reading() as tx:
            webhook = await records.get(tx, WEBHOOKS, uuid)
            position = await webhooks.find(tx, uuid)
            if webhook is None or position is None or webhook["state"] != WebhookState.ACTIVE:
                return False
            principal, reason = await _subscriber(tx, webhook)
        if principal is None:
            await self._store(position, Verdict(progress=position.progress, pause=reason))
            return False
        found = await self._find_next(webhook, position, principal)
        if found.body is None:
            return await self._pass(position, found)
        answer = await self._sender.send(webhook, found.body)
        return await self._follow(position, found, answer)

    async def _find_next(
        self, webhook: Record, position: WebhookPosition, principal: Principal
    ) -> _NextEvent:
        if position.queued:
            # The row may have been deleted meanwhile, and then a later one is the first.
            events, _ = await self._read(position.queued - 1)
            queued = [event for event in events if event.id == position.queued]
            body = await self._body(webhook, queued[0], principal) if queued else None
            return _NextEvent(log_id=position.queued, body=body, is_letter=True)
        events, end = await self._read(position.position)
        for log_event in events:
            body = await self._body(webhook, log_event, principal)
            if body is not None:
                return _NextEvent(log_id=log_event.id, body=body)
        return _NextEvent(log_id=end)

    async def _body(self, webhook: Record, event: LogEvent, principal: Principal) -> Record | None:
        """The CloudEvent that a webhook gets; None if it does not get this event."""
        subscription = read_subscription(webhook)
        if not subscription.takes(_name(event), event.properties):
            return None
        reader = EventReader(self._services, principal, path="")
        properties = await reader.visible(HeardEvent(event))
        if properties is None:
            return None
        if subscription.projects:
            async with self._services.database.reading() as tx:
                owners = await permission_queries.owners_above(tx, event.object_owner_uuid)
                if not subscription.has_place((event.object_uuid, *owners)):
                    return None
                before = (properties.get("old_attributes") or {}).get("owner_uuid")
                is_moved = before not in (None, event.object_owner_uuid)
                if is_moved and not subscription.has_place(
                    await permission_queries.owners_above(tx, str(before))
                ):
                    # The place that a record came from is no business of the project.
                    properties = {**properties}
                    del properties["old_attributes"]
        return cloud_event(
            uuid=event.uuid,
            number=event.id,
            object_uuid=event.object_uuid,
            object_owner_uuid=event.object_owner_uuid,
            event_type=event.event_type,
            event_at=event.event_at,
            properties=properties,
        )

    async def _pass(self, position: WebhookPosition, next_row: _NextEvent) -> bool:
        """Store that there is no event up to a row; whether there may be one behind it."""
        uuid = position.webhook_uuid
        if not next_row.is_letter and next_row.log_id == position.position:
            return False
        async with self._services.database.writing() as tx:
            if next_row.is_letter:
                await webhooks.unbury(tx, uuid, next_row.log_id)
                return True
            moved = replace(position, position=next_row.log_id)
            return await webhooks.save(tx, moved, self._lease())

    async def _follow(
        self, position: WebhookPosition, next_row: _NextEvent, answer: Answer
    ) -> bool:
        """Store the end of an attempt; whether another may follow at once."""
        now = self._services.clock.now()
        decided = decide_again if next_row.is_letter else decide
        verdict = decided(position.progress, answer, self._rules, now=now, chance=self._chance())
        is_good = verdict.is_settled and not verdict.is_dead
        self._services.features[METRICS].note_delivery(is_good=is_good, is_dead=verdict.is_dead)
        moved = replace(
            position,
            position=position.position
            if next_row.is_letter or not verdict.is_settled
            else next_row.log_id,
            delivered=position.delivered + is_good,
            delivered_at=now if is_good else position.delivered_at,
            fault="" if is_good else answer.fault,
            next_at=later(now, verdict.delay) if verdict.delay else "",
        )
        event_type = str((next_row.body or {}).get("type"))
        letter = DeadLetter(
            log_id=next_row.log_id,
            event_type=event_type,
            is_queued=False,
            fault=answer.fault,
            failed_at=now,
        )
        attempt = DeliveryAttempt(
            log_id=next_row.log_id,
            event_type=event_type,
            outcome=answer.outcome,
            status=answer.status,
            fault=answer.fault,
            tried_at=now,
        )
        is_stored = await self._store(
            moved, verdict, attempt, letter if verdict.is_dead or next_row.is_letter else None
        )
        return is_stored and not verdict.delay and not verdict.pause

    async def _store(
        self,
        position: WebhookPosition,
        verdict: Verdict,
        attempt: DeliveryAttempt | None = None,
        letter: DeadLetter | None = None,
    ) -> bool:
        """Store how far a webhook is; False if another server holds it now. `attempt`: the one that
        ended; `letter`: the event became a dead letter, or was one and was delivered.
        """
        uuid, services = position.webhook_uuid, self._services
        stored = replace(position, progress=verdict.progress)
        async with services.database.writing() as tx:
            if not await webhooks.save(tx, stored, self._lease()):
                return False
            if attempt is not None:
                await webhooks.note_attempt(tx, uuid, attempt)
            if letter is not None and verdict.is_dead:
                await webhooks.bury(tx, uuid, letter)
            elif letter is not None:
                await webhooks.unbury(tx, uuid, letter.log_id)
            if verdict.pause:
                await pause(tx, services, uuid, verdict.pause, user_uuid=services.ids.system_user)
        if verdict.pause:
            event(_logger, "webhook was paused", webhook=uuid, why=verdict.pause)
        elif letter is not None and verdict.is_dead:
            event(_logger, "event is a dead letter", webhook=uuid, log_id=letter.log_id)
        return True

    def _lease(self) -> WorkLease:
        until = later(self._services.clock.now(), self._lease_time)
        return WorkLease(holder=self._holder, held_until=until)


async def pause(
    tx: Transaction, services: ApiServices, uuid: str, reason: str, *, user_uuid: str
) -> Record | None:
    """Pause a webhook, which is an event; the record, None if it was deleted."""
    old = await records.get(tx, WEBHOOKS, uuid)
    if old is None or old["state"] == WebhookState.PAUSED:
        return old
    changes: Record = {"state": WebhookState.PAUSED, "paused_reason": reason}
    return await generic.apply(tx, services, WEBHOOKS, old, changes, user_uuid=user_uuid)


def _user_of(webhook: Record) -> str:
    """The user whose permissions decide which events a webhook gets."""
    owner = str(webhook["owner_uuid"])
    return owner if is_user(owner) else str(webhook["subscriber_uuid"])


async def _subscriber(tx: Transaction, webhook: Record) -> tuple[Principal | None, str]:
    """The user of a webhook; None with the reason why it gets nothing any more."""
    uuid, owner = _user_of(webhook), str(webhook["owner_uuid"])
    user = await records.get(tx, USERS, uuid)
    if user is None or not (user["is_active"] or user["is_admin"]):
        return None, f"the user {uuid}, who set it up, is not active any more"
    if not user["is_admin"] and uuid != owner:
        level = await permission_queries.level_in(tx, uuid, owner)
        if level < Level.MANAGE:
            return None, f"the user {uuid}, who set it up, does not manage the project any more"
    principal = Principal(user_uuid=uuid, token_uuid="", token="", is_admin=bool(user["is_admin"]))
    return principal, ""


def _name(event: LogEvent) -> str:
    return event_name(event.object_uuid, event.event_type)

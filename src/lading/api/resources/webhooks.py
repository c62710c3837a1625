"""Webhooks: receivers outside, to which events of a user or a project are sent.

Users make them for themselves, managers of a project for the project; the same see them, because a
URL may be a secret, and so do admins. The secret of the signatures is shown once. Tokens of
containers and tokens of limited scope make none: what is sent outlives them. `api.webhooks.worker`
sends the events. Source: docs/spec/webhooks.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

from lading.api import authorization
from lading.api.events.audit import latest, wake
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import check_match, show
from lading.api.server.features import FeatureKey
from lading.api.webhooks import worker
from lading.api.webhooks.receivers import WEBHOOK_SENDER
from lading.core.errors import Forbidden, Invalid, Unavailable
from lading.core.ids import is_group, is_user
from lading.core.quantities import later
from lading.core.records import access
from lading.core.records.attributes import MAX_INTEGER
from lading.core.records.cloud_events import cloud_event
from lading.core.records.expressions import Among, Column, Query
from lading.core.records.filters import check_select
from lading.core.records.permissions import Level
from lading.core.records.record_types import USERS
from lading.core.records.schema import JSON, Record, Type
from lading.core.records.service_records import KEEP_FORMER, WEBHOOKS
from lading.core.webhooks import signature
from lading.core.webhooks.messages import TEST_EVENT
from lading.core.webhooks.subscription import (
    WebhookFormat,
    WebhookState,
    check_webhook,
    mail_address,
)
from lading.store import permission_queries, records, webhooks
from lading.store.database import Transaction
from lading.store.webhooks import WebhookPosition

# Dead letters of one answer, and of one call.
_MOST_LETTERS: Final = 1000
_MOST_REASON: Final = 1000
# Webhooks whose progress one call asks for.
_MOST_LISTED: Final = 1000
# Seconds for which a former secret may be valid: 30 days.
_LONGEST_KEPT: Final = 30 * 86400


class _Tests:
    """Tests of webhooks that go on now, four at most."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(4)
        self.users: set[str] = set()
        """Each user has one at a time, whatever its receiver does."""


_TESTS: Final = FeatureKey("tests of webhooks", _Tests)


async def list_webhooks(call: ApiCall) -> ApiResponse:
    """A page of webhooks, without their secrets."""
    return await generic.list_records(call, WEBHOOKS)


async def get_webhook(call: ApiCall) -> ApiResponse:
    """One webhook, without its secret."""
    return await generic.get_record(call, WEBHOOKS)


async def create_webhook(call: ApiCall) -> ApiResponse:
    """A new webhook, with its secret; events from now on are sent."""
    _check_token(call)
    services, caller = call.services, call.caller
    record = generic.new_record(call, WEBHOOKS, generic.check_attributes(call, WEBHOOKS, None))
    check_webhook(record)
    owner = record["owner_uuid"]
    record["subscriber_uuid"] = owner if is_user(owner) else caller.user_uuid
    record["secret"] = signature.make_secret(services.ids.entropy(signature.KEY_BYTES))
    position = await latest(services.database)
    async with services.database.writing() as tx:
        await _check_place(tx, call, record)
        await _check_mail(tx, call, record)
        await generic.insert(tx, call, WEBHOOKS, record)
        await webhooks.start(tx, record["uuid"], position)
    return ApiResponse(body={**show(WEBHOOKS, record), "secret": record["secret"]})


async def update_webhook(call: ApiCall) -> ApiResponse:
    """Change a webhook; that of a project gets the events that the caller can read from now on."""
    _check_token(call)
    select = check_select(call.params.get("select"), WEBHOOKS)
    async with call.services.database.writing() as tx:
        old = await _find(tx, call)
        new = {**old, **generic.check_attributes(call, WEBHOOKS, old)}
        if new["owner_uuid"] != old["owner_uuid"]:
            raise Invalid("owner_uuid: a webhook stays with its owner; make another one")
        check_webhook(new)
        if not is_user(new["owner_uuid"]):
            new["subscriber_uuid"] = call.caller.user_uuid
        if (new["url"], new["format"]) != (old["url"], old["format"]):
            await _check_mail(tx, call, new)
        new = await generic.apply(
            tx, call.services, WEBHOOKS, old, new, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body=show(WEBHOOKS, new, select))


async def delete_webhook(call: ApiCall) -> ApiResponse:
    """Remove a webhook with its dead letters."""
    async with call.services.database.writing() as tx:
        old = await _find(tx, call)
        await generic.remove(tx, call.services, WEBHOOKS, old, user_uuid=call.caller.user_uuid)
        await webhooks.forget(tx, old["uuid"])
    return ApiResponse(body=show(WEBHOOKS, old))


async def test_webhook(call: ApiCall) -> ApiResponse:
    """Send a test event now; {"outcome", "status", "fault"}, whether it is paused or not."""
    services = call.services
    async with services.database.reading() as tx:
        webhook = await _find(tx, call)
    user, tests = call.caller.user_uuid, services.features[_TESTS]
    if tests.turns.locked() or user in tests.users:
        raise Unavailable("too many webhooks are being tested; try again in a minute")
    now = services.clock.now()
    event = cloud_event(
        uuid=f"{services.config.ClusterID}-test-{services.ids.entropy(8).hex()}",
        number=0,
        object_uuid=webhook["uuid"],
        object_owner_uuid=webhook["owner_uuid"],
        event_type=TEST_EVENT,
        event_at=now,
        properties={"text": "a test of this webhook"},
    )
    tests.users.add(user)
    try:
        async with tests.turns:
            answer = await services.features[WEBHOOK_SENDER].send(webhook, event)
    finally:
        tests.users.discard(user)
    return ApiResponse(
        body={"outcome": answer.outcome, "status": answer.status, "fault": answer.fault}
    )


async def pause_webhook(call: ApiCall) -> ApiResponse:
    """Send nothing any more."""
    reason = call.params.get("reason") or "paused by a user"
    if not isinstance(reason, str) or len(reason) > _MOST_REASON or not reason.isprintable():
        raise Invalid(f"reason: must be a line of at most {_MOST_REASON} characters")
    user = call.caller.user_uuid
    async with call.services.database.writing() as tx:
        found = await _find(tx, call)
        changed = await worker.pause(tx, call.services, found["uuid"], reason, user_uuid=user)
    return ApiResponse(body=show(WEBHOOKS, changed or found))


async def resume_webhook(call: ApiCall) -> ApiResponse:
    """Send again, from where it was paused, or with `skip` from now on."""
    services, position = call.services, await latest(call.services.database)
    async with services.database.writing() as tx:
        old = await _find(tx, call)
        before = await webhooks.find(tx, old["uuid"])
        if before is not None and not call.params.get("skip"):
            position = before.position
        changes = {"state": WebhookState.ACTIVE, "paused_reason": None}
        new = await generic.apply(
            tx, services, WEBHOOKS, old, changes, user_uuid=call.caller.user_uuid
        )
        await webhooks.start(tx, old["uuid"], position)
    return ApiResponse(body=show(WEBHOOKS, new))


async def rotate_secret(call: ApiCall) -> ApiResponse:
    """Make a new secret; the record with it. The former secret is valid too for `keep` seconds."""
    _check_token(call)
    services, keep = call.services, call.params.get("keep", KEEP_FORMER)
    if not isinstance(keep, int) or isinstance(keep, bool) or not 0 <= keep <= _LONGEST_KEPT:
        raise Invalid(f"keep: must be a number of seconds from 0 to {_LONGEST_KEPT}")
    async with services.database.writing() as tx:
        old = await _find(tx, call)
        if old["format"] == WebhookFormat.EMAIL:
            raise Invalid(f"{call.uuid}: e-mail is not signed, so it has no secret")
        changes: Record = {
            "secret": signature.make_secret(services.ids.entropy(signature.KEY_BYTES)),
            "former_secret": old["secret"] if keep else None,
            "former_secret_until": later(services.clock.now(), keep) if keep else None,
        }
        new = await generic.apply(
            tx, services, WEBHOOKS, old, changes, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body={**show(WEBHOOKS, new), "secret": new["secret"]})


async def get_deliveries(call: ApiCall) -> ApiResponse:
    """Position of a webhook in the log, its first 1,000 dead letters and its latest attempts."""
    last = await latest(call.services.database)
    async with call.services.database.reading() as tx:
        webhook = await _find(tx, call)
        position = await webhooks.find(tx, webhook["uuid"])
        dead = await webhooks.letters(tx, webhook["uuid"], most=_MOST_LETTERS)
        recent = await webhooks.attempts(tx, webhook["uuid"])
    if position is None:
        raise Unavailable(f"{call.uuid}: it has no position yet; resume it")
    body = _progress(webhook, position, last)
    return ApiResponse(
        body={
            **body,
            "dead": [dataclasses.asdict(letter) for letter in dead],
            "recent": [dataclasses.asdict(attempt) for attempt in recent],
        }
    )


async def list_progress(call: ApiCall) -> ApiResponse:
    """Positions of those of the given webhooks that the caller can read: {"items": [...]}, each as
    `get_deliveries` has it, with the number of its dead letters in their place.
    """
    uuids = call.params.get("uuids")
    if not isinstance(uuids, list) or len(uuids) > _MOST_LISTED:
        raise Invalid(f"uuids: must be a list of at most {_MOST_LISTED} uuids of webhooks")
    condition = Among(Column("uuid", Type.STRING), tuple(map(str, uuids)))
    where = (*generic.readable(call, WEBHOOKS), condition)
    services, last = call.services, await latest(call.services.database)
    async with services.database.reading() as tx:
        query = Query(where=where, select=("uuid", "state", "paused_reason"), limit=_MOST_LISTED)
        webhook_rows = await records.search(tx, tx.dialect, WEBHOOKS, query)
        positions = await webhooks.among(tx, [str(row["uuid"]) for row in webhook_rows])
    positions_by_uuid = {position.webhook_uuid: position for position in positions}
    rows = (
        (webhook, positions_by_uuid[webhook["uuid"]])
        for webhook in webhook_rows
        if webhook["uuid"] in positions_by_uuid
    )
    items: list[Record] = [
        {"uuid": webhook["uuid"], **_progress(webhook, at, last), "dead_count": at.progress.dead}
        for webhook, at in rows
    ]
    return ApiResponse(body={"items": items})


def _progress(webhook: Record, position: WebhookPosition, last: int) -> Record:
    return {
        "state": webhook["state"],
        "paused_reason": webhook["paused_reason"],
        "log_id": position.position,
        "last_log_id": last,
        "delivered": position.delivered,
        "delivered_at": position.delivered_at or None,
        "attempts": position.progress.attempts,
        "failures": position.progress.failures,
        "failing_since": position.progress.failing_since or None,
        "next_at": position.next_at or None,
        "fault": position.fault,
    }


async def redeliver(call: ApiCall) -> ApiResponse:
    """Queue dead letters to be sent again; {"queued": number}."""
    numbers = _numbers(call.params.get("log_ids"))
    async with call.services.database.writing() as tx:
        found = await _find(tx, call)
        if found["state"] != WebhookState.ACTIVE:
            raise Invalid(f"{call.uuid}: it is paused; resume it first")
        queued = await webhooks.queue_letters(tx, found["uuid"], numbers)
        wake(tx, call.services.database, call.services.events)
    return ApiResponse(body={"queued": queued})


def _numbers(numbers: JSON) -> list[int] | None:
    if numbers is None:
        return None
    if not isinstance(numbers, list) or len(numbers) > _MOST_LETTERS:
        raise Invalid(f"log_ids: must be a list of at most {_MOST_LETTERS} numbers")
    valid = [
        number for number in numbers if isinstance(number, int) and not isinstance(number, bool)
    ]
    if len(valid) < len(numbers) or any(not 0 <= number <= MAX_INTEGER for number in valid):
        raise Invalid("log_ids: each must be the number of an event")
    return valid


async def _find(tx: Transaction, call: ApiCall) -> Record:
    """The webhook of the call, which the caller may change. Raises NotFound, Forbidden."""
    webhook = await authorization.find_readable(
        tx, call.services.clock, call.services.config, WEBHOOKS, call.uuid, call.caller
    )
    if call.method != "GET":
        await authorization.check_writable(tx, WEBHOOKS, webhook, call.caller, Level.MANAGE)
        check_match(call, webhook)
    return webhook


def _check_token(call: ApiCall) -> None:
    caller = call.caller
    access.check_user(caller)
    if caller.container_uuid is not None or access.is_limited(caller):
        raise Forbidden(
            "Forbidden: the token of a container, or one of limited scope, may not set up "
            "webhooks, which would outlive it"
        )


async def _check_place(tx: Transaction, call: ApiCall, record: Record) -> None:
    """Check that the caller may make webhooks of this owner, and one more of them."""
    caller, owner = call.caller, record["owner_uuid"]
    if is_user(owner) and owner != caller.user_uuid:
        access.check_admin(caller, "make webhooks of others")
        if await records.get(tx, USERS, owner) is None:
            raise Invalid(f"owner_uuid: '{owner}' not found")
    else:
        await authorization.check_owner(tx, call, owner)
    if is_group(owner) and not caller.is_admin:
        level = await permission_queries.level_in(tx, caller.user_uuid, owner)
        if level < Level.MANAGE:
            raise authorization.lacking(owner, Level.MANAGE)
    most = call.services.config.Webhooks.MaxPerOwner
    if len(await records.matching(tx, WEBHOOKS, owner_uuid=owner)) >= most:
        raise Invalid(f"owner_uuid: {owner} has {most} webhooks already; delete one")


async def _check_mail(tx: Transaction, call: ApiCall, record: Record) -> None:
    """Check that e-mail goes to the caller: nobody can have it sent to strangers."""
    if record["format"] != WebhookFormat.EMAIL or call.caller.is_admin:
        return
    user = await records.get(tx, USERS, call.caller.user_uuid)
    own = str((user or {}).get("email") or "")
    if mail_address(record["url"]).lower() != own.lower():
        raise Forbidden(
            "Forbidden: url: e-mail can be sent to your own address, "
            f"which is {own or 'not known'}; others are set by admins"
        )


HANDLERS: Final = {
    "webhooks.list": list_webhooks,
    "webhooks.get": get_webhook,
    "webhooks.create": create_webhook,
    "webhooks.update": update_webhook,
    "webhooks.delete": delete_webhook,
    "webhooks.test": test_webhook,
    "webhooks.pause": pause_webhook,
    "webhooks.resume": resume_webhook,
    "webhooks.rotate": rotate_secret,
    "webhooks.progress": list_progress,
    "webhooks.deliveries": get_deliveries,
    "webhooks.redeliver": redeliver,
}

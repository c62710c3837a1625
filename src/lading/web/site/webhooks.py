"""Webhooks: those of the reader and of projects that the reader manages, with their deliveries and
dead letters; a form makes one, and shows its secret once.

Words and actions are those of `lading webhook` (`core.webhooks.descriptions`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.client import sharing
from lading.client.api import Record
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.records.service_records import KEEP_FORMER
from lading.core.webhooks import descriptions
from lading.core.webhooks.schedule import Outcome
from lading.core.webhooks.subscription import WebhookFormat, WebhookState
from lading.web.keyset import key_of, page_after
from lading.web.visit import Visit

PLACE: Final = "/ui/webhooks"
_KIND: Final = "webhooks"
_PAGE: Final = 50
_MINE: Final = "mine"
# Choices of the form that rotates a secret, in seconds.
KEPT: Final = {0: "not at all", 3600: "1 h", KEEP_FORMER: "1 d", 7 * 86400: "7 d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRow:
    """A webhook as the list shows it; `progress` is None where it has no position yet."""

    webhook: Record
    receiver: str
    events: str
    owner: str
    progress: Record | None

    @property
    def trouble(self) -> str:
        """Failures and dead letters."""
        return descriptions.trouble_text(self.progress) if self.progress else ""


async def show(visit: Visit) -> Response:
    """The webhooks that the reader sees; `owner` is the uuid of a user or a project, or `mine`."""
    return await _list(visit)


async def create(visit: Visit) -> Response:
    """Make a webhook and show its secret: this page alone has it."""
    owner = visit.field("for").strip()
    url = visit.field("url").strip()
    form = visit.field("format")
    attributes: Record = {
        "url": url,
        "name": visit.field("name").strip() or None,
        "format": "email" if url.startswith("mailto:") else form or "cloudevents",
        "states": _words(visit.field("states")),
        "project_uuid": await sharing.find_project(visit.api, visit.field("in")) or None,
    }
    if types := _words(visit.field("types")):
        attributes["event_types"] = types
    if owner:
        attributes["owner_uuid"] = await sharing.find_project(visit.api, owner)
    made = await visit.api.create(_KIND, attributes)
    if made["format"] == WebhookFormat.EMAIL:
        return visit.redirect(f"{PLACE}/{made['uuid']}")
    visit.tells_secret = True
    return await _page(visit, made["uuid"], secret=made["secret"])


async def show_one(visit: Visit) -> Response:
    """One webhook."""
    return await _page(visit, _uuid(visit))


async def test(visit: Visit) -> Response:
    """Send a test event now, and show how that ended."""
    answer = await _act(visit, "test")
    return await _page(visit, _uuid(visit), tested=answer)


async def pause(visit: Visit) -> Response:
    """Send nothing any more."""
    reason = visit.field("reason").strip()
    await _act(visit, "pause", {"reason": reason} if reason else None)
    return _back(visit)


async def resume(visit: Visit) -> Response:
    """Send again, from the event where it was paused, or with `skip` from now on."""
    await _act(visit, "resume", {"skip": True} if visit.field("skip") else None)
    return _back(visit)


async def rotate(visit: Visit) -> Response:
    """Make a new secret and show it: this page alone has it."""
    keep = visit.field("keep")
    if keep not in map(str, KEPT):
        raise Invalid(f"keep: choose one of {', '.join(KEPT.values())}")
    changed = await _act(visit, "rotate", {"keep": int(keep)})
    visit.tells_secret = True
    return await _page(visit, _uuid(visit), secret=changed["secret"])


async def redeliver(visit: Visit) -> Response:
    """Send dead letters again: those that are chosen, or all."""
    chosen = visit.form.get("letter") or []
    if not visit.field("all") and not chosen:
        raise Invalid("letter: choose dead letters")
    if not all(letter.isascii() and letter.isdigit() and len(letter) < 19 for letter in chosen):
        raise Invalid("letter: must be the number of an event")
    body = None if visit.field("all") else {"log_ids": [int(letter) for letter in chosen]}
    answer = await _act(visit, "redeliver", body)
    return visit.redirect(f"{PLACE}/{_uuid(visit)}?{urlencode({'queued': answer['queued']})}")


async def delete(visit: Visit) -> Response:
    """Delete a webhook with its dead letters. It asks first."""
    uuid = _uuid(visit)
    if visit.field("sure") != "yes":
        webhook = await visit.api.get(_KIND, uuid)
        return visit.page("webhook_delete.html", webhook=webhook, title=_title(webhook))
    await visit.api.delete(_KIND, uuid)
    return visit.redirect(PLACE)


async def _list(visit: Visit) -> Response:
    owner = visit.query("owner")
    me = visit.session.user_uuid if visit.session else ""
    owner_uuid = me if owner == _MINE else owner
    if owner_uuid and not is_uuid(owner_uuid, Infix.USER) and not is_uuid(owner_uuid, Infix.GROUP):
        raise NotFound("There is no such user or project")
    webhooks = await page_after(
        visit.api,
        _KIND,
        filters=[["owner_uuid", "=", owner_uuid]] if owner_uuid else [],
        select=descriptions.SHOWN,
        after=visit.query("after"),
        most=_PAGE + 1,
    )
    rows = webhooks[:_PAGE]
    names = await sharing.names_of(
        visit.api, [*(webhook["owner_uuid"] for webhook in rows), owner_uuid]
    )
    progress = await _progress(visit, [webhook["uuid"] for webhook in rows])
    more = {"owner": owner, "after": key_of(rows[-1])} if len(webhooks) > _PAGE else {}
    return visit.page(
        "webhooks.html",
        rows=[
            WebhookRow(
                webhook=webhook,
                receiver=descriptions.receiver_text(webhook["url"]),
                events=descriptions.events_text(webhook),
                owner="" if webhook["owner_uuid"] == me else names.get(webhook["owner_uuid"], ""),
                progress=progress.get(webhook["uuid"]),
            )
            for webhook in rows
        ],
        owner=owner,
        project=owner_uuid if is_uuid(owner_uuid, Infix.GROUP) else "",
        names=names,
        older=f"{PLACE}?{urlencode(more)}" if more else "",
        formats=[str(form) for form in WebhookFormat if form is not WebhookFormat.EMAIL],
    )


async def _page(
    visit: Visit, uuid: str, *, secret: str = "", tested: Record | None = None
) -> Response:
    webhook = await visit.api.get(_KIND, uuid, select=descriptions.SHOWN)
    progress: Any = await visit.api.action(_KIND, uuid, "deliveries", method="GET")
    queued = visit.query("queued")[:9]
    places = [webhook["owner_uuid"], webhook["project_uuid"] or "", webhook["subscriber_uuid"]]
    return visit.page(
        "webhook.html",
        webhook=webhook,
        title=_title(webhook),
        progress=progress,
        events=descriptions.events_text(webhook),
        names=await sharing.names_of(visit.api, places),
        is_paused=webhook["state"] == WebhookState.PAUSED,
        facts=[(name, value) for name, value in descriptions.delivery_facts(progress) if value],
        dead=[(letter, descriptions.letter_text(letter)) for letter in progress["dead"]],
        recent=[(attempt, descriptions.attempt_text(attempt)) for attempt in progress["recent"]],
        queued=descriptions.queued_text(int(queued)) if queued.isdecimal() else "",
        secret=secret,
        tested=descriptions.test_text(tested) if tested else "",
        is_good=tested is not None and tested["outcome"] == Outcome.DELIVERED,
        kept=KEPT,
        usual=KEEP_FORMER,
    )


async def _act(visit: Visit, name: str, body: Any = None) -> Record:
    # Not repeated: a test that was answered late would be sent twice.
    answer: Any = await visit.api.action(_KIND, _uuid(visit), name, body=body, repeat=False)
    found: Record = answer
    return found


async def _progress(visit: Visit, uuids: list[str]) -> dict[str, Record]:
    if not uuids:
        return {}
    answer: Any = await visit.api.request("GET", f"{_KIND}/progress", params={"uuids": uuids})
    return {item["uuid"]: item for item in answer["items"]}


def _words(field_text: str) -> list[str]:
    return [word for word in re.split(r"[\s,]+", field_text) if word]


def _title(webhook: Record) -> str:
    return str(webhook["name"] or descriptions.receiver_text(webhook["url"]))


def _uuid(visit: Visit) -> str:
    uuid = visit.parts["uuid"]
    if not is_uuid(uuid, Infix.WEBHOOK):
        raise NotFound("There is no such webhook")
    return uuid


def _back(visit: Visit) -> Response:
    return visit.redirect(f"{PLACE}/{_uuid(visit)}")

"""Wishes to be told of the end of a run: webhooks that name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.client.api import ApiClient, Record
from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.runs.run_ends import EVENT
from lading.core.runs.states import RunState
from lading.core.webhooks.subscription import WebhookFormat

ME: Final = "me"
"""The caller's own e-mail address."""
_PLURAL: Final = "webhooks"
_BAD: Final = (str(RunState.FAILED), str(RunState.CANCELLED))
_MAILTO: Final = "mailto:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A wish; `secret` signs its deliveries, "" for e-mail and for a wish that was there before."""

    webhook: Record
    secret: str = ""


async def notify(
    api: ApiClient, uuid: str, name: str, receiver: str, *, only_failures: bool = False
) -> Notification:
    """Have the ends of a run sent to a URL or an e-mail address, `me` for the caller's. An equal
    wish is made once. Raises Invalid for the run of a workflow.
    """
    if not is_uuid(uuid, Infix.GROUP):
        raise Invalid(
            f"{name}: is the request of a workflow; 'lading webhook create URL --state Final' "
            "tells of its end"
        )
    url = await _address(api, receiver)
    states = list(_BAD) if only_failures else []
    for webhook in await wishes(api, uuid):
        if webhook["url"] == url and webhook["states"] == states:
            return Notification(webhook=webhook)
    is_mail = url.startswith(_MAILTO)
    webhook = await api.create(
        _PLURAL,
        {
            "name": f"end of {name}",
            "url": url,
            "format": str(WebhookFormat.EMAIL if is_mail else WebhookFormat.CLOUDEVENTS),
            "event_types": [EVENT],
            "states": states,
            "project_uuid": uuid,
        },
    )
    secret = "" if is_mail else str(webhook["secret"])
    return Notification(webhook=webhook, secret=secret)


async def wishes(api: ApiClient, uuid: str) -> list[Record]:
    """The webhooks that tell of the ends of a run, as far as the caller sees them."""
    rows = await api.list(_PLURAL, filters=[["project_uuid", "=", uuid]], limit=1000)
    return [row for row in rows if row["event_types"] == [EVENT]]


async def forget(api: ApiClient, uuid: str) -> int:
    """Delete the wishes about a run; how many."""
    rows = await wishes(api, uuid)
    for row in rows:
        await api.delete(_PLURAL, row["uuid"])
    return len(rows)


async def _address(api: ApiClient, receiver: str) -> str:
    """The URL of a receiver. Raises Invalid."""
    if receiver == ME:
        user = await api.get("users", "current", select=("email",))
        if not user["email"]:
            raise Invalid("you have no e-mail address here; give one, or a URL")
        return f"{_MAILTO}{user['email']}"
    if receiver.startswith(("https://", "http://", _MAILTO)):
        return receiver
    if "@" in receiver:
        return f"{_MAILTO}{receiver}"
    raise Invalid(f"{receiver[:80]}: is neither a URL, nor an e-mail address, nor 'me'")

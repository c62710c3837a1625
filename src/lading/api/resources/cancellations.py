"""Cancellation of many requests by filters, and its progress.

`POST container_requests/cancel_matching` stores what is to be cancelled and answers at once; the
server does the work in the background (`api.background.request_cancellation`). Requests that are
created later are left alone. `GET container_requests/cancellation?id=...` says how far it is.

Source: docs/spec/api, section Cancelling many requests.
"""

from __future__ import annotations

from typing import Final

from lading.api.http import ApiCall, ApiResponse
from lading.core.errors import Malformed, NotFound
from lading.core.records import access
from lading.core.records.container_types import REQUESTS
from lading.core.records.filters import check_filters
from lading.core.records.schema import Record
from lading.core.values import printable
from lading.store import cancellations
from lading.store.cancellations import Cancellation


async def cancel_matching(call: ApiCall) -> ApiResponse:
    """Store a cancellation of all Committed requests that meet the filters. Raises Invalid."""
    filters = call.params.get("filters")
    # Left out by mistake it would mean all requests.
    if not isinstance(filters, list):
        raise Malformed("filters: must be an array of [attribute, operator, operand]")
    access.check_filters(call.caller, check_filters(filters, REQUESTS))
    services = call.services
    now = services.clock.now()
    cancellation = Cancellation(
        id=services.ids.entropy(16).hex(),
        user_uuid=call.caller.user_uuid,
        filters=filters,
        created_at=now,
        position=cancellations.start_of(now),
    )
    async with services.database.writing() as tx:
        await cancellations.put(tx, cancellation)
        tx.after_commit(services.events.wakeups.cancel)
    return ApiResponse(body=_shown(cancellation))


async def get_cancellation(call: ApiCall) -> ApiResponse:
    """The progress of a cancellation, for its user and for admins. Raises NotFound."""
    id = str(call.params.get("id") or "")
    async with call.services.database.reading() as tx:
        one = await cancellations.get(tx, id)
    if one is None or not (call.caller.is_admin or one.user_uuid == call.caller.user_uuid):
        raise NotFound(f"{printable(id[:60])}: no such cancellation; they are kept for a week")
    return ApiResponse(body=_shown(one))


def _shown(cancellation: Cancellation) -> Record:
    return {
        "kind": "lading#cancellation",
        "id": cancellation.id,
        "created_at": cancellation.created_at,
        "finished_at": cancellation.finished_at,
        "total": cancellation.total,
        "cancelled": cancellation.cancelled,
        "refused": cancellation.refused,
        "error": cancellation.error,
    }


HANDLERS: Final = {
    "container_requests.cancel_matching": cancel_matching,
    "container_requests.cancellation": get_cancellation,
}

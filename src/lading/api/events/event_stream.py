"""Events as server-sent events, in the form of CloudEvents: `GET /events`.

The number of the log row is the id of each event: a client that was cut off sends it as
`Last-Event-ID`, and gets what it has missed of the last ten minutes. A client that does not keep up
is let go, and comes back so. The module `event_reader` decides which reader sees which events.
Sources: docs/spec/api, section Server-sent events;
https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from lading.api.events.audit import latest
from lading.api.events.event_reader import (
    MOST_VALUES,
    EventReader,
    count_values,
    is_filter,
    meets,
    missed,
)
from lading.api.events.listeners import HeardEvent, Listener
from lading.api.http import ApiCall, ApiResponse, decode
from lading.core.errors import Forbidden, Invalid, Unauthenticated
from lading.core.records.attributes import MAX_INTEGER
from lading.core.records.cloud_events import cloud_event
from lading.core.records.schema import JSON

PATH: Final = "/events"
SILENCE: Final = 15.0
"""Seconds without an event after which a comment is sent, so that no proxy gives up; the token is
looked up again then.
"""
_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
# Milliseconds after which a browser comes back.
_BEGIN: Final = b"retry: 2000\n: events\n\n"
_ALIVE: Final = b": still there\n\n"
_encode = msgspec.json.Encoder().encode


async def get_events(call: ApiCall) -> ApiResponse:
    """All events that the caller may see, from now on or after `Last-Event-ID`; `filters` as those
    of a subscription of the websocket. Raises Invalid.
    """
    filters = _filters(call.params.get("filters"))
    last = position(call.headers.get("last-event-id", ""))
    reader = EventReader(call.services, call.caller, path=PATH)
    return ApiResponse(
        stream=_events(call, reader, filters, last), headers=dict(_HEADERS), is_endless=True
    )


async def _events(
    call: ApiCall, reader: EventReader, filters: list[JSON], last: int | None
) -> AsyncGenerator[bytes]:
    services = call.services
    with services.events.bus.listen(reader.audience) as listener:
        services.events.bus.choose(
            listener, _encode([filters]), lambda event: meets(filters, event)
        )
        # Events that were committed before may still arrive where several processes share the
        # database.
        last_id = await latest(services.database) if last is None else last
        yield _BEGIN
        while last is not None and (
            earlier := await missed(services.database, services.clock, last_id)
        ):
            for event in earlier:
                last_id = event.id
                if meets(filters, event) and (message := await _shown(reader, HeardEvent(event))):
                    yield message
        try:
            async for heard in _heard(listener):
                if heard is None:
                    await reader.look_up()
                    services.events.bus.follow(listener, reader.audience)
                    yield _ALIVE
                    continue
                reader.note(heard.event)
                if heard.event.id > last_id and meets(filters, heard.event):
                    if not reader.is_known:
                        await reader.look_up()
                        services.events.bus.follow(listener, reader.audience)
                    if message := await _shown(reader, heard):
                        yield message
        except (Unauthenticated, Forbidden):
            # The token has ended: so do the events. A new call is refused with the reason.
            return


async def _heard(listener: Listener) -> AsyncGenerator[HeardEvent | None]:
    """Each event, and None when there was none for a while; it ends with a listener that was
    dropped.
    """
    while not listener.lost:
        heard = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENCE):
                heard = await listener.get()
        yield heard


async def _shown(reader: EventReader, heard: HeardEvent) -> bytes:
    """The text of an event; empty if the caller may not see it."""
    properties = await reader.visible(heard)
    if properties is None:
        return b""
    event = heard.event
    form = ("server-sent", "old_attributes" in properties)
    if message := event.texts.get(form):
        return message.encode()
    body = cloud_event(
        uuid=event.uuid,
        number=event.id,
        object_uuid=event.object_uuid,
        object_owner_uuid=event.object_owner_uuid,
        event_type=event.event_type,
        event_at=event.event_at,
        properties=properties,
    )
    # JSON has no line break, so that nothing in it can end the event.
    message = event.texts[form] = f"id: {event.id}\ndata: {_encode(body).decode()}\n\n"
    return message.encode()


def _filters(sent: JSON) -> list[JSON]:
    filters = [] if sent is None else sent
    if isinstance(filters, str):
        filters = decode(filters, "filters")
    if not isinstance(filters, list) or not all(is_filter(condition) for condition in filters):
        raise Invalid('filters: must be a list, as [["event_type", "in", ["update"]]]')
    if count_values(filters) > MOST_VALUES:
        raise Invalid(f"filters: more than {MOST_VALUES} values; open streams with fewer")
    return filters


def position(header: str) -> int | None:
    """The number in `Last-Event-ID`; None for none, and for what no event here had."""
    return min(int(header), MAX_INTEGER) if header.isascii() and header.isdigit() else None

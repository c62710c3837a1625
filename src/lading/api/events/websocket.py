"""The websocket for events: subscriptions, replay of missed events, then each new event.

The handshake fails only for an invalid token; a temporary fault ends the connection with 1013, "try
again later". The token and its user are looked up again for an event, unless that was done less
than a second before and neither was changed here since: an expired or deleted token ends the
connection. A user receives the events of records that the user may read at that moment, which is
checked for each event. A token of limited scope receives those of records that it may GET. The old
attributes of a moved record are left out for users who cannot read its former owner's records.
Undelivered messages wait in a queue; a client whose queue stays full is disconnected, and must
connect again. Source: docs/spec/api, section Websocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lading.api.authorization import authenticate, find_readable, find_token
from lading.api.events.audit import is_event, latest, listened, make_event
from lading.api.events.event_bus import Listener, LogEvent
from lading.api.http import decode
from lading.api.services import ApiServices
from lading.core.errors import Forbidden, LadingError, NotFound, RequestError, Unauthenticated
from lading.core.protocols import http_head
from lading.core.quantities import format_time, parse_time
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.attributes import MAX_INTEGER
from lading.core.records.expressions import Column, Compare, Expression, Query, SortKey
from lading.core.records.record_types import BY_INFIX, GROUPS, LOGS
from lading.core.records.schema import JSON, Record, RecordType, Type
from lading.net.acceptor import note_known
from lading.small_queue import SmallQueue
from lading.store import records

# Seconds, minutes and messages as in Arvados (docs/spec/api, section Websocket).
PING: Final = 60.0
# Age of the oldest events that a client can have repeated.
REPLAY: Final = timedelta(minutes=10)
# Messages that wait for one client; beyond it the connection is closed.
QUEUE: Final = 64
PATIENCE: Final = 1.0
"""Seconds for which the queue may stay full: many events at once do not mean that a client is
slow.
"""
FRESH: Final = timedelta(seconds=1)
"""Time for which the principal of a listener is not looked up again, unless a token was changed in
this process.
"""
# Close codes: 4000 to 4999 are free for applications, 1013 is "try again later" (RFC 6455, 7.4).
_REFUSED: Final = 4401
# No such path: 4000 plus the status of HTTP.
_NOT_HERE: Final = 4404
# Try Again Later: registered by IANA for an overloaded server.
_LATER: Final = 1013
# Each event is matched against each subscription: a client cannot make events costly for others.
_SUBSCRIPTIONS: Final = 100
_logger = logging.getLogger("lading.api.events.websocket")
_encode = msgspec.json.Encoder().encode
_COMPARISONS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


async def serve_websocket(
    services: ApiServices,
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Serve one connection until either side ends it."""
    socket = WebSocket(scope, receive, send)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    try:
        http_head.check_call("GET", headers, scheme=str(scope.get("scheme", "wss")))
        principal = await authenticate(
            services, find_token(headers, dict(parse_qsl(scope["query_string"].decode("latin-1"))))
        )
        if principal is None:
            raise Unauthenticated
        if scope["path"].rstrip("/") != "/websocket":
            raise NotFound
        access.check_scope(principal, "GET", "/websocket")
        access.check_active(principal)
        if not principal.is_anonymous:
            note_known(scope)
    except RequestError as error:
        await socket.close(
            _REFUSED if isinstance(error, Unauthenticated | Forbidden) else _NOT_HERE
        )
        return
    except LadingError:
        # The handshake can only refuse, and clients take a refusal for a bad token.
        await socket.accept()
        await socket.close(_LATER)
        return
    await socket.accept()
    with services.bus.listen() as listener:
        session = _Session(services, socket, principal, listener)
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(session.write(), name="websocket writer"),
                tasks.create_task(session.deliver(), name="websocket delivery"),
            ]
            await session.read()
            for one in beside:
                one.cancel()


class _Session:
    """The subscriptions of one connection."""

    def __init__(
        self, services: ApiServices, socket: WebSocket, principal: Principal, listener: Listener
    ) -> None:
        self._services = services
        self._socket = socket
        self._principal = principal
        self._listener = listener
        self._subscriptions: list[list[JSON]] = []
        self._sent = 0
        self._last = 0
        self._replayed: set[int] = set()
        self._outgoing = SmallQueue[str | None](QUEUE)
        self._code = _LATER
        # New events are sent after the end of a replay.
        self._turn = asyncio.Lock()
        self._speak_at = self._check_at = asyncio.get_running_loop().time() + PING
        self._known_at: datetime | None = None
        self._known_changes = 0

    async def read(self) -> None:
        """Carry out the requests of the client."""
        while self._socket.application_state is WebSocketState.CONNECTED:
            try:
                text = await self._socket.receive_text()
            except (WebSocketDisconnect, KeyError):
                return
            # The client may leave while its answer is written.
            with contextlib.suppress(WebSocketDisconnect):
                try:
                    await self._answer(decode(text, "message"))
                except (Unauthenticated, Forbidden):
                    await self._hang_up(_REFUSED)
                except (RequestError, ValueError):
                    await self._send({"status": 400})
                except (LadingError, TimeoutError):
                    await self._hang_up()

    async def write(self) -> None:
        """Send events, and a keep-alive when there are none. Hangs up on a client that does not
        keep up.
        """
        code = _LATER
        # The client has left, or takes nothing any more; both end the session.
        with contextlib.suppress(WebSocketDisconnect, TimeoutError):
            try:
                await self._pass_on_all()
            except (Unauthenticated, Forbidden):
                code = _REFUSED
            except TimeoutError:
                _logger.warning(
                    "events ended: a client left %d events waiting for %g s", QUEUE, PATIENCE
                )
            except LadingError as error:
                _logger.warning("events ended: %s", error)
            await self._hang_up(code)

    async def deliver(self) -> None:
        """Send the queued messages, in order. Hangs up on a client that accepts nothing for
        long.
        """
        # The client has gone.
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                text = await self._outgoing.get()
                if text is None or self._socket.application_state is not WebSocketState.CONNECTED:
                    await self._close()
                    return
                try:
                    async with asyncio.timeout(PING):
                        await self._socket.send_text(text)
                except TimeoutError:
                    _logger.warning("events ended: a client took nothing for %g s", PING)
                    await self._close()
                    return

    async def _pass_on_all(self) -> None:
        now = asyncio.get_running_loop().time
        while not self._listener.lost:
            event = None
            # Not wait_for: it forgets that it was cancelled when an event comes at the same moment.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._speak_at - now()):
                    event = await self._listener.get()
            async with self._turn:
                if event is None or now() >= self._check_at:
                    await self._look_up_caller()
                if event is None:
                    await self._send({})
                    continue
                if event.object_uuid == self._principal.user_uuid:
                    self._known_at = None
                if self._is_new(event) and self._is_wanted(event):
                    if not self._is_caller_known():
                        await self._look_up_caller()
                    await self._pass_on_readable(event)

    def _is_caller_known(self) -> bool:
        """Whether the caller was looked up a moment ago, and no token was changed in this process
        since.
        """
        if self._known_at is None or self._known_changes != self._services.bus.token_changes:
            return False
        # The clock was set back: the age of the result is unknown.
        return timedelta() <= self._services.clock() - self._known_at < FRESH

    async def _look_up_caller(self) -> None:
        """Look the caller up again. Raises Unauthenticated, Forbidden when the token is not valid
        any more.
        """
        # The result may lack changes made during the look-up.
        now, changes = self._services.clock(), self._services.bus.token_changes
        principal = await authenticate(self._services, self._principal.token)
        if principal is None:
            raise Unauthenticated
        access.check_scope(principal, "GET", "/websocket")
        access.check_active(principal)
        self._principal, self._known_at, self._known_changes = principal, now, changes
        self._check_at = asyncio.get_running_loop().time() + PING

    async def _pass_on_readable(self, event: LogEvent) -> bool:
        """Queue the part of an event that the caller may read; whether there is any."""
        if not await self._may_read(event):
            return False
        await self._pass_on(event, await self._properties(event))
        return True

    def _is_new(self, event: LogEvent) -> bool:
        if event.id in self._replayed:
            self._replayed.remove(event.id)
            return False
        return event.id > self._last

    async def _hang_up(self, code: int = _LATER) -> None:
        """End the connection once the queue is sent; at once if the queue is full."""
        self._code = code
        if self._outgoing.is_full:
            await self._close()
        else:
            self._outgoing.put_at_once(None)

    async def _close(self) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            # A client that takes nothing; the connection is dropped.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PING):
                    await self._socket.close(self._code)

    async def _answer(self, message: JSON) -> None:
        filters = message.get("filters") or [] if isinstance(message, dict) else None
        if not isinstance(filters, list) or not all(_is_filter(one) for one in filters):
            raise ValueError("filters")
        method = message.get("method")
        async with self._turn:
            if method == "unsubscribe":
                self._subscriptions.remove(filters)
                await self._send({"status": 200})
            elif method == "subscribe" and len(self._subscriptions) < _SUBSCRIPTIONS:
                await self._subscribe(filters, message.get("last_log_id"))
            else:
                raise ValueError("method")

    async def _subscribe(self, filters: list[JSON], last: JSON) -> None:
        if self._services.database.shared and not self._subscriptions:
            # Events that were committed before may still arrive here.
            self._last = max(self._last, await latest(self._services))
        await self._send({"status": 200})
        self._subscriptions.append(filters)
        if isinstance(last, int) and not isinstance(last, bool):
            await self._replay(filters, min(max(last, 0), MAX_INTEGER))

    async def _replay(self, filters: list[JSON], last: int) -> None:
        database = self._services.database
        since = format_time(self._services.clock() - REPLAY)
        where: tuple[Expression, ...] = (
            Compare(Column("id", Type.INTEGER), ">", last),
            Compare(Column("event_at", Type.TIME), ">", since),
        )
        names = tuple(one.name for one in LOGS.columns)
        query = Query(where=where, order=(SortKey("id"),), select=names, limit=10_000)
        await self._look_up_caller()
        async with database.reading() as tx:
            rows = await records.search(tx, database.dialect, LOGS, query)
        for row in rows:
            if is_event(row):
                event = make_event(row, listened(row["properties"]))
                if _meets(filters, event) and await self._pass_on_readable(event):
                    self._replayed.add(event.id)

    def _is_wanted(self, event: LogEvent) -> bool:
        return any(_meets(filters, event) for filters in self._subscriptions)

    async def _may_read(self, event: LogEvent) -> bool:
        kind = BY_INFIX.get(event.object_uuid[6:11])
        path = f"/arvados/v1/{kind.plural if kind else LOGS.plural}/{event.object_uuid}"
        if not access.covers(self._principal, "GET", path):
            return False
        if self._principal.is_admin:
            return True
        owner = event.object_owner_uuid
        if event.event_type == "delete":
            # It is deleted; readers of its former project could see it.
            return await self._may_look_into(owner)
        record = await self._find(kind, event.object_uuid) if kind and kind.stored else None
        if record is None:
            return False
        # The record may have moved since this event.
        return record.get("owner_uuid", owner) == owner or await self._may_look_into(owner)

    async def _find(self, kind: RecordType, uuid: str) -> Record | None:
        """A record, None if the caller cannot read it."""
        async with self._services.database.reading() as tx:
            try:
                return await find_readable(
                    tx, self._services, kind, uuid, self._principal, include_trash=True
                )
            except NotFound:
                return None

    async def _may_look_into(self, owner: str) -> bool:
        """Whether the caller can read the records that a user or a project owns."""
        if owner == self._principal.user_uuid:
            return True
        return BY_INFIX.get(owner[6:11]) is GROUPS and await self._find(GROUPS, owner) is not None

    async def _properties(self, event: LogEvent) -> Record:
        """The properties of an event, without the old attributes of a record that was in a place
        that the caller cannot read.
        """
        given = event.properties
        old, new = given.get("old_attributes") or {}, given.get("new_attributes") or {}
        owner = old.get("owner_uuid")
        if self._principal.is_admin or owner in (None, new.get("owner_uuid", owner)):
            return given
        if await self._may_look_into(str(owner)):
            return given
        return {name: value for name, value in given.items() if name != "old_attributes"}

    async def _pass_on(self, event: LogEvent, properties: Record) -> None:
        self._sent += 1
        await self._send(
            {
                "msgID": self._sent,
                "id": event.id,
                "uuid": event.uuid,
                "object_uuid": event.object_uuid,
                "object_owner_uuid": event.object_owner_uuid,
                "object_kind": event.object_kind,
                "event_type": event.event_type,
                "event_at": event.event_at,
                "properties": properties,
            }
        )

    async def _send(self, message: Record) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            self._speak_at = asyncio.get_running_loop().time() + PING
            async with asyncio.timeout(PATIENCE):
                await self._outgoing.put(_encode(message).decode())


def _meets(filters: list[JSON], event: LogEvent) -> bool:
    return all(matches(one, event) for one in filters)


def matches(one: JSON, event: LogEvent) -> bool:
    """Whether an event satisfies one filter of a subscription."""
    attribute, operator, operand = one
    if attribute == "event_type" and operator == "in" and isinstance(operand, list):
        return event.event_type in operand
    if attribute == "object_uuid" and operator == "is_a":
        return event.object_kind in (operand if isinstance(operand, list) else [operand])
    if attribute == "created_at" and operator in _COMPARISONS and isinstance(operand, str):
        try:
            return _COMPARISONS[operator](event.event_at, format_time(parse_time(operand)))
        except (ValueError, OverflowError):
            return True
    return True


def _is_filter(one: JSON) -> bool:
    return (
        isinstance(one, list)
        and len(one) == 3
        and isinstance(one[0], str)
        and isinstance(one[1], str)
    )

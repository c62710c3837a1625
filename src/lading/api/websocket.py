"""Events over a websocket (api-contract 7): subscribe, replay of what was missed, then each event that may be read.

Only a token that is refused is refused in the handshake. What passes ends the connection with 1013, "try again later".
A token of limited scope hears of the records that it may GET.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lading.api.audit import LISTENED, make_event
from lading.api.authentication import authenticate, find_token
from lading.api.bus import Event, Listener
from lading.api.exchange import decode
from lading.api.generic import find_readable
from lading.api.services import Services
from lading.core import access
from lading.core.access import Principal
from lading.core.errors import Forbidden, LadingError, NotFound, RequestError, Unauthenticated
from lading.core.filters import MAX_INTEGER, Column, Compare, Expression, Order, Query
from lading.core.records import BY_INFIX, CONTAINERS, LOGS, TOKENS
from lading.core.schema import JSON, Record, Type
from lading.core.timestamps import format_time, parse_time
from lading.store import records

PING: Final = 60.0
REPLAY: Final = timedelta(minutes=10)
_REFUSED: Final = 4401
_NOT_HERE: Final = 4404
_LATER: Final = 1013
_SUBSCRIPTIONS: Final = 100
_logger = logging.getLogger("lading.api.websocket")
_encode = msgspec.json.Encoder().encode
_COMPARISONS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


async def serve_websocket(
    services: Services,
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """One connection, until either side ends it."""
    socket = WebSocket(scope, receive, send)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    try:
        principal = await authenticate(
            services, find_token(headers, dict(parse_qsl(scope["query_string"].decode("latin-1"))))
        )
        if principal is None:
            raise Unauthenticated
        if scope["path"].rstrip("/") != "/websocket":
            raise NotFound
        access.check_scope(principal, "GET", "/websocket")
    except RequestError as error:
        await socket.close(_REFUSED if isinstance(error, Unauthenticated | Forbidden) else _NOT_HERE)
        return
    except LadingError:
        # The handshake can only refuse, and that would say that the token is bad.
        await socket.accept()
        await socket.close(_LATER)
        return
    await socket.accept()
    with services.bus.listen() as listener:
        session = _Session(services, socket, principal, listener)
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(session.write(), name="websocket writer")
            await session.read()
            writing.cancel()


class _Session:
    """What one connection has subscribed to."""

    def __init__(self, services: Services, socket: WebSocket, principal: Principal, listener: Listener) -> None:
        self._services = services
        self._socket = socket
        self._principal = principal
        self._listener = listener
        self._subscriptions: list[list[JSON]] = []
        self._sent = 0
        self._last = 0

    async def read(self) -> None:
        """Carry out what the client asks for."""
        while self._socket.application_state is WebSocketState.CONNECTED:
            try:
                text = await self._socket.receive_text()
            except (WebSocketDisconnect, KeyError):
                return
            with contextlib.suppress(WebSocketDisconnect):
                try:
                    await self._answer(decode(text, "message"))
                except (RequestError, ValueError):
                    await self._send({"status": 400})
                except LadingError:
                    await self._hang_up()

    async def write(self) -> None:
        """Pass events on; a sign of life when there are none. Hangs up on a listener that did not keep up."""
        with contextlib.suppress(WebSocketDisconnect):
            try:
                await self._pass_on_all()
            except LadingError as error:
                _logger.warning("events ended: %s", error)
            await self._hang_up()

    async def _pass_on_all(self) -> None:
        while not self._listener.lost:
            try:
                event = await asyncio.wait_for(self._listener.get(), PING)
            except TimeoutError:
                await self._send({})
                continue
            if event.id > self._last and self._is_wanted(event) and await self._may_read(event):
                await self._pass_on(event)

    async def _hang_up(self) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            await self._socket.close(_LATER)

    async def _answer(self, message: JSON) -> None:
        filters = message.get("filters") or [] if isinstance(message, dict) else None
        if not isinstance(filters, list) or not all(_is_filter(one) for one in filters):
            raise ValueError("filters")
        method = message.get("method")
        if method == "unsubscribe":
            self._subscriptions.remove(filters)
        elif method != "subscribe" or len(self._subscriptions) == _SUBSCRIPTIONS:
            raise ValueError("method")
        await self._send({"status": 200})
        if method == "subscribe":
            self._subscriptions.append(filters)
            last = message.get("last_log_id")
            if isinstance(last, int) and not isinstance(last, bool):
                await self._replay(min(max(last, 0), MAX_INTEGER))

    async def _replay(self, last: int) -> None:
        database = self._services.database
        since = format_time(self._services.clock() - REPLAY)
        where: tuple[Expression, ...] = (
            Compare(Column("id", Type.INTEGER), ">", last),
            Compare(Column("event_at", Type.TIME), ">", since),
        )
        names = tuple(one.name for one in LOGS.columns)
        query = Query(where=where, order=(Order("id"),), select=names, limit=10_000)
        async with database.reading() as tx:
            rows = await records.search(tx, database.dialect, LOGS, query)
        for row in rows:
            event = make_event(row, _shown(row["properties"]))
            if (
                BY_INFIX.get(event.object_uuid[6:11]) is not TOKENS
                and self._is_wanted(event)
                and await self._may_read(event)
            ):
                await self._pass_on(event)
            self._last = max(self._last, event.id)

    def _is_wanted(self, event: Event) -> bool:
        return any(all(_matches(one, event) for one in filters) for filters in self._subscriptions)

    async def _may_read(self, event: Event) -> bool:
        kind = BY_INFIX.get(event.object_uuid[6:11])
        path = f"/arvados/v1/{kind.plural if kind else LOGS.plural}/{event.object_uuid}"
        if not access.covers(self._principal, "GET", path):
            return False
        if self._principal.is_admin:
            return True
        if kind is not CONTAINERS or event.event_type == "delete":
            return event.object_owner_uuid == self._principal.user_uuid
        async with self._services.database.reading() as tx:
            try:
                await find_readable(tx, self._services, kind, event.object_uuid, self._principal)
            except NotFound:
                return False
        return True

    async def _pass_on(self, event: Event) -> None:
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
                "properties": event.properties,
            }
        )

    async def _send(self, message: Record) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            await self._socket.send_text(_encode(message).decode())


def _shown(properties: Record) -> Record:
    if "text" in properties:
        return properties
    return {
        side: {name: properties[side][name] for name in LISTENED if name in properties[side]}
        for side in ("old_attributes", "new_attributes")
        if side in properties
    }


def _matches(one: JSON, event: Event) -> bool:
    attribute, operator, operand = one
    if attribute == "event_type" and operator == "in" and isinstance(operand, list):
        return event.event_type in operand
    if attribute == "created_at" and operator in _COMPARISONS and isinstance(operand, str):
        try:
            return _COMPARISONS[operator](event.event_at, format_time(parse_time(operand)))
        except (ValueError, OverflowError):
            return True
    return True


def _is_filter(one: JSON) -> bool:
    return isinstance(one, list) and len(one) == 3 and isinstance(one[0], str) and isinstance(one[1], str)

"""The websocket for events: subscriptions, replay of missed events, then each new event.

The handshake fails only for an invalid token; a temporary fault ends the connection with 1013, "try
again later". The module `event_reader` decides which reader sees which events. Undelivered messages
wait in a queue; a client whose queue stays full is disconnected, and must connect again. Source:
docs/spec/api, section Websocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lading.api.events.audit import latest
from lading.api.events.event_reader import (
    MOST_VALUES,
    EventReader,
    audience_of,
    count_values,
    is_filter,
    meets,
    missed,
)
from lading.api.events.listeners import HeardEvent, Listener, LogEvent
from lading.api.http import decode
from lading.api.logins.authentication import authenticate, find_token, note_caller
from lading.api.services import ApiServices
from lading.core.errors import Forbidden, LadingError, NotFound, RequestError, Unauthenticated
from lading.core.protocols import http_head
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.attributes import MAX_INTEGER
from lading.core.records.container_types import CONTAINERS
from lading.core.records.schema import JSON, Record
from lading.process.concurrency import SmallQueue

# Seconds, minutes and messages as in Arvados (docs/spec/api, section Websocket).
PING: Final = 60.0
# Messages that wait for one client; beyond it the connection is closed.
QUEUE: Final = 64
PATIENCE: Final = 1.0
"""Seconds for which the queue may stay full: many events at once do not mean that a client is
slow.
"""
# Close codes: 4000 to 4999 are free for applications, 1013 is "try again later" (RFC 6455, 7.4).
_REFUSED: Final = 4401
# No such path: 4000 plus the status of HTTP.
_NOT_HERE: Final = 4404
# Try Again Later: registered by IANA for an overloaded server.
_LATER: Final = 1013
# Each event is matched against each subscription: a client cannot make events costly for others.
_SUBSCRIPTIONS: Final = 100
SEND_AT_ONCE: Final = "lading.websocket.send_at_once"
"""ASGI extension of a websocket, with a function `send`: it sends texts with one write, without
waiting, and returns False where it cannot: then nothing is sent.
"""
SendAtOnce: TypeAlias = Callable[[list[str]], bool]
_logger = logging.getLogger("lading.api.events.websocket")
_encode = msgspec.json.Encoder().encode


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
        note_caller(scope, principal)
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
    with services.events.bus.listen(audience_of(principal)) as listener:
        session = _Session(services, socket, principal, listener)
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(session.write(), name="websocket writer"),
                tasks.create_task(session.deliver(), name="websocket delivery"),
            ]
            await session.read()
            for task in beside:
                task.cancel()


class _Session:
    """The subscriptions of one connection."""

    def __init__(
        self, services: ApiServices, socket: WebSocket, principal: Principal, listener: Listener
    ) -> None:
        self._services = services
        self._socket = socket
        self._reader = EventReader(services, principal, path="/websocket")
        self._listener = listener
        self._subscriptions: list[list[JSON]] = []
        self._choose()
        self._sent = 0
        self._last = 0
        self._replayed: set[int] = set()
        self._outgoing = SmallQueue[str | None](QUEUE)
        # The queue, and whether a message is on its way from it, are for a client that is behind.
        self._is_delivering = False
        extensions = socket.scope.get("extensions") or {}
        self._send_at_once: SendAtOnce | None = extensions.get(SEND_AT_ONCE, {}).get("send")
        self._code = _LATER
        # New events are sent after the end of a replay.
        self._turn = asyncio.Lock()
        self._speak_at = self._check_at = asyncio.get_running_loop().time() + PING

    async def read(self) -> None:
        """Carry out the requests of the client."""
        while self._socket.application_state is WebSocketState.CONNECTED:
            try:
                message = await self._socket.receive_text()
            except (WebSocketDisconnect, KeyError):
                return
            # The client may leave while its answer is written.
            with contextlib.suppress(WebSocketDisconnect):
                try:
                    await self._answer(decode(message, "message"))
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
                self._is_delivering = False
                message = await self._outgoing.get()
                self._is_delivering = True
                if (
                    message is None
                    or self._socket.application_state is not WebSocketState.CONNECTED
                ):
                    await self._close()
                    return
                try:
                    async with asyncio.timeout(PING):
                        await self._socket.send_text(message)
                except TimeoutError:
                    _logger.warning("events ended: a client took nothing for %g s", PING)
                    await self._close()
                    return

    async def _pass_on_all(self) -> None:
        now = asyncio.get_running_loop().time
        while not self._listener.lost:
            if not self._listener.waiting:
                await self._listener.arrival_by(self._speak_at)
            async with self._turn:
                if not self._listener.waiting or now() >= self._check_at:
                    await self._look_up_caller()
                if not self._listener.waiting:
                    await self._send({})
                await self._pass_on_waiting()

    async def _pass_on_waiting(self) -> None:
        """Pass on the events that have come, with one turn: most are not for this client."""
        texts: list[str] = []
        try:
            for _ in range(self._listener.waiting):
                if self._listener.lost:
                    return
                await self._look_at(self._listener.get_at_once(), texts)
                if len(texts) >= QUEUE:
                    await self._send_texts(texts)
                    texts = []
        finally:
            # What came before a fault is sent too.
            await self._send_texts(texts)

    async def _look_at(self, heard: HeardEvent, texts: list[str]) -> None:
        """Append the message with an event to `texts`, if the caller wants it and may read it."""
        self._reader.note(heard.event)
        if not (self._is_new(heard.event) and self._is_wanted(heard.event)):
            return
        if not self._reader.is_known:
            await self._look_up_caller()
        properties = self._reader.visible_at_once(heard)
        if properties is None:
            properties = await self._reader.visible(heard)
        if properties is not None:
            texts.append(self._message(heard.event, properties))

    async def _look_up_caller(self) -> None:
        """Look the caller up again. Raises Unauthenticated, Forbidden when the token is not valid
        any more.
        """
        await self._reader.look_up()
        # The caller may have become an admin, or no admin any more.
        self._services.events.bus.follow(self._listener, self._reader.audience)
        self._check_at = asyncio.get_running_loop().time() + PING

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
        if not isinstance(filters, list) or not all(is_filter(condition) for condition in filters):
            raise ValueError("filters")
        method = message.get("method")
        async with self._turn:
            values = count_values(filters) + sum(map(count_values, self._subscriptions))
            if method == "unsubscribe":
                self._subscriptions.remove(filters)
                self._choose()
                if not self._subscriptions:
                    self._listener.take_offers("")
                await self._send({"status": 200})
            elif (
                method == "subscribe"
                and len(self._subscriptions) < _SUBSCRIPTIONS
                and values <= MOST_VALUES
            ):
                selected = _selected(message.get("offers"))
                dispatcher = self._reader.dispatcher if selected else ""
                await self._subscribe(filters, message.get("last_log_id"))
                if dispatcher:
                    self._listener.take_offers(dispatcher, selected)
            else:
                raise ValueError("method")

    async def _subscribe(self, filters: list[JSON], last: JSON) -> None:
        if self._services.database.shared and not self._subscriptions:
            # Events that were committed before may still arrive here.
            self._last = max(self._last, await latest(self._services.database))
        # Before the answer, after which the client expects the events. None is sent before it, as
        # this session has the turn.
        self._subscriptions.append(filters)
        self._choose()
        await self._send({"status": 200})
        if isinstance(last, int) and not isinstance(last, bool):
            await self._replay(filters, min(max(last, 0), MAX_INTEGER))

    async def _replay(self, filters: list[JSON], last: int) -> None:
        await self._look_up_caller()
        for event in await missed(self._services.database, self._services.clock, last):
            if not meets(filters, event):
                continue
            properties = await self._reader.visible(HeardEvent(event))
            if properties is not None:
                await self._send_texts([self._message(event, properties)])
                self._replayed.add(event.id)

    def _is_wanted(self, event: LogEvent) -> bool:
        return any(meets(filters, event) for filters in self._subscriptions)

    def _choose(self) -> None:
        """Tell the bus which events are wanted."""
        subscriptions = [*self._subscriptions]

        def wants(event: LogEvent) -> bool:
            return any(meets(filters, event) for filters in subscriptions)

        self._services.events.bus.choose(self._listener, _encode(subscriptions), wants)

    def _message(self, event: LogEvent, properties: Record) -> str:
        """The next message, with an event."""
        self._sent += 1
        body = _text_of(event, properties)
        if event.record and self._listener.selected:
            record = event.record
            selected = {name: record[name] for name in self._listener.selected if name in record}
            body = f'{body[:-1]},"record":{_encode(selected).decode()}}}'
        return f'{{"msgID":{self._sent},{body[1:]}'

    async def _send(self, message: Record) -> None:
        await self._send_texts([_encode(message).decode()])

    async def _send_texts(self, texts: list[str]) -> None:
        """Send messages: at once if the client keeps up, else by the queue."""
        if not texts or self._socket.application_state is not WebSocketState.CONNECTED:
            return
        self._speak_at = asyncio.get_running_loop().time() + PING
        is_idle = not self._outgoing and not self._is_delivering
        if is_idle and self._send_at_once is not None and self._send_at_once(texts):
            return
        for message in texts:
            if not self._outgoing.is_full:
                self._outgoing.put_at_once(message)
                continue
            async with asyncio.timeout(PATIENCE):
                await self._outgoing.put(message)


def _text_of(event: LogEvent, properties: Record) -> str:
    """The JSON of an event, but for the number of the message: made once for all listeners."""
    form = ("websocket", "old_attributes" in properties)
    if (encoded := event.texts.get(form)) is None:
        message = {
            "id": event.id,
            "uuid": event.uuid,
            "object_uuid": event.object_uuid,
            "object_owner_uuid": event.object_owner_uuid,
            "object_kind": event.object_kind,
            "event_type": event.event_type,
            "event_at": event.event_at,
            "properties": properties,
        }
        encoded = event.texts[form] = _encode(message).decode()
    return encoded


def _selected(offers: JSON) -> tuple[str, ...]:
    """The attributes of containers that a dispatcher wants with its offers; none for other
    listeners. Raises ValueError.
    """
    names = [] if offers is None else offers
    known = CONTAINERS.by_name
    if not isinstance(names, list) or not all(str(name) in known for name in names):
        raise ValueError("offers: must be a list of attributes of containers")
    return tuple(name for name in CONTAINERS.visible if name in names)

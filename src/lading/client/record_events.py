"""Events of records, from the WebSocket of the API.

Events come over the websocket (docs/spec/api, section Websocket). A connection can break at any
moment, and the events until the next connection are lost. Each new connection therefore begins with
`Reconnected`, after which the consumer lists the records again. A server that sends nothing for
longer than its keep-alive period counts as unreachable.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from lading.client.api import ApiClient
from lading.client.retry import RetryPolicy, Sleep
from lading.client.transport import WebSocket
from lading.core.errors import Forbidden, Invalid, LadingError, Unauthenticated

_CHANGES = ["event_type", "in", ["create", "update", "delete"]]
# Seconds for opening the connection.
_OPEN = 20.0
# Seconds; the server writes something every 60 s, so two messages may be missing.
_SILENCE = 150.0


class RecordEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change: `event_type` is create, update or delete; `properties` has old_attributes and
    new_attributes.
    """

    event_type: str
    object_uuid: str
    object_kind: str = ""
    object_owner_uuid: str = ""
    event_at: str = ""
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    record: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Attributes of a new container, for a dispatcher that takes offers."""


class Reconnected(msgspec.Struct, frozen=True):
    """A new connection, also the first one: changes may have been missed, list the records
    again.
    """


async def events(
    api: ApiClient,
    *,
    kinds: Sequence[str] = (),
    offers: Sequence[str] = (),
    retry: RetryPolicy | None = None,
    sleep: Sleep = asyncio.sleep,
    chance: Callable[[], float] = random.random,
    silence: float = _SILENCE,
) -> AsyncGenerator[RecordEvent | Reconnected]:
    """All changes, without end; connects again after failures, with the pauses of `retry`.

    `kinds` are the wanted kinds of records, such as `arvados#container`; a server that does not
    know this filter sends all. With `offers` the caller is a dispatcher that takes its turn with
    others to hear of containers that begin to wait, and gets these attributes of new ones
    (docs/spec/dispatch, section Offers). Raises Unauthenticated or Forbidden when the token is
    refused, Invalid when the subscription is. Close it with `aclosing`.
    """
    policy, failures = retry or RetryPolicy(cap=5.0), 0
    while True:
        try:
            async with api.transport.websocket(
                "/websocket", headers=api.headers, timeout=_OPEN
            ) as socket:
                await socket.send(_subscription(kinds, offers=offers))
                async with aclosing(_listen(socket, silence)) as items:
                    async for item in items:
                        # The connection works: the next failure is paused for as if it were the
                        # first.
                        failures = 0
                        yield item
        except (Unauthenticated, Forbidden, Invalid):
            raise
        except LadingError:
            # Unavailable, or the response of a proxy while the server restarts: both pass.
            pass
        failures += 1
        await sleep(policy.pause(failures, chance()))


def _subscription(kinds: Sequence[str], *, offers: Sequence[str]) -> str:
    filters = [_CHANGES, ["object_uuid", "is_a", list(kinds)]] if kinds else [_CHANGES]
    message: dict[str, object] = {"method": "subscribe", "filters": filters}
    if offers:
        message["offers"] = list(offers)
    return msgspec.json.encode(message).decode()


async def _listen(socket: WebSocket, silence: float) -> AsyncGenerator[RecordEvent | Reconnected]:
    while (received := await socket.receive(silence)) is not None:
        message = _decode(received)
        if "event_type" in message:
            yield _event(message)
        elif message.get("status") == 200:
            yield Reconnected()
        elif "status" in message:
            raise Invalid(f"the server refused to send events: {received[:200]}")


def _event(message: Mapping[str, Any]) -> RecordEvent:
    return RecordEvent(
        event_type=str(message["event_type"]),
        object_uuid=str(message.get("object_uuid") or ""),
        object_kind=str(message.get("object_kind") or ""),
        object_owner_uuid=str(message.get("object_owner_uuid") or ""),
        event_at=str(message.get("event_at") or ""),
        properties=message.get("properties") or {},
        record=message.get("record") or {},
    )


def _decode(received: str) -> Mapping[str, Any]:
    try:
        message = msgspec.json.decode(received)
    except msgspec.DecodeError:
        return {}
    return message if isinstance(message, dict) else {}

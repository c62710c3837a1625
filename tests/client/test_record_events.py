from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest
from starlette.websockets import WebSocket

from lading.client.api import ApiClient
from lading.client.record_events import Reconnected, RecordEvent, events
from lading.core.errors import Forbidden, Invalid
from lading.testing.asgi import AsgiTransport, FlakyTransport

SUBSCRIBED = '{"status":200}'
CREATED = (
    '{"msgID":1,"event_type":"create","object_uuid":"zzzzz-dz642-1","object_kind":"arvados#container",'
    '"object_owner_uuid":null,"event_at":"2026-01-01T00:00:00.000000000Z","properties":{"new_attributes":{}}}'
)


class Speaker:
    """Says its lines on each connection, then hangs up, or stays when the connection has no more
    lines.
    """

    def __init__(self, *connections: list[str] | None) -> None:
        self._connections = list(connections)
        self.heard: list[str] = []
        self.tokens: list[str] = []
        self.pauses: list[float] = []

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        socket = WebSocket(scope, receive, send)  # type: ignore[arg-type]
        lines = self._connections.pop(0) if self._connections else []
        if lines is None:
            await socket.close()
            return
        await socket.accept()
        self.tokens.append(socket.headers["authorization"])
        self.heard.append(await socket.receive_text())
        for line in lines:
            await socket.send_text(line)
        if lines:
            await socket.close()
        else:
            await socket.receive()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def take(
        self, count: int, *, flaky: bool = False, silence: float = 5.0
    ) -> list[RecordEvent | Reconnected]:
        transport = FlakyTransport(AsgiTransport(self), seed=1) if flaky else AsgiTransport(self)
        stream = events(
            ApiClient(transport, "secret"), sleep=self.sleep, chance=lambda: 0.0, silence=silence
        )
        found: list[RecordEvent | Reconnected] = []
        async with aclosing(stream), asyncio.timeout(180):
            async for item in stream:
                found.append(item)
                if len(found) == count:
                    break
        return found


async def test_events_after_the_first_connection() -> None:
    speaker = Speaker([SUBSCRIBED, "{}", CREATED])
    first, event = await speaker.take(2)
    assert first == Reconnected()
    assert event == RecordEvent(
        event_type="create",
        object_uuid="zzzzz-dz642-1",
        object_kind="arvados#container",
        event_at="2026-01-01T00:00:00.000000000Z",
        properties={"new_attributes": {}},
    )
    assert speaker.tokens == ["Bearer secret"]
    assert '"method":"subscribe"' in speaker.heard[0]


async def test_only_some_kinds_are_asked_for() -> None:
    speaker = Speaker([SUBSCRIBED])
    async with aclosing(
        events(ApiClient(AsgiTransport(speaker), "secret"), kinds=("arvados#container",))
    ) as stream:
        assert await anext(stream) == Reconnected()
    assert '["object_uuid","is_a",["arvados#container"]]' in speaker.heard[0]
    assert "offers" not in speaker.heard[0]


async def test_a_dispatcher_says_that_it_takes_offers() -> None:
    speaker = Speaker([SUBSCRIBED])
    client = ApiClient(AsgiTransport(speaker), "secret")
    async with aclosing(events(client, offers=("uuid", "state"))) as stream:
        assert await anext(stream) == Reconnected()
    assert '"offers":["uuid","state"]' in speaker.heard[0]


async def test_every_new_connection_is_announced() -> None:
    speaker = Speaker([SUBSCRIBED, CREATED], [SUBSCRIBED, CREATED])
    kinds = [type(item) for item in await speaker.take(4)]
    assert kinds == [Reconnected, RecordEvent, Reconnected, RecordEvent]
    assert speaker.pauses == [0.05]


async def test_pauses_grow_while_there_is_no_connection() -> None:
    speaker = Speaker(*([SUBSCRIBED] for _ in range(20)))
    await speaker.take(20, flaky=True)
    assert max(speaker.pauses) > 0.05


async def test_a_silent_server_is_left() -> None:
    speaker = Speaker([], [SUBSCRIBED])
    assert await speaker.take(1, silence=0.01) == [Reconnected()]
    assert len(speaker.tokens) == 2


async def test_nonsense_is_passed_over() -> None:
    speaker = Speaker(["not json", "[1]", SUBSCRIBED, '{"event_type":"delete"}'])
    assert await speaker.take(2) == [
        Reconnected(),
        RecordEvent(event_type="delete", object_uuid=""),
    ]


@pytest.mark.parametrize(
    ("make", "kind"),
    [(lambda: Speaker(None), Forbidden), (lambda: Speaker(['{"status":400}']), Invalid)],
)
async def test_a_refusal_ends_it(make: Callable[[], Speaker], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await make().take(1)

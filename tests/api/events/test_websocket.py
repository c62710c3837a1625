"""Events over a websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lading.api.events import audit, event_reader, websocket
from lading.api.events.listeners import LogEvent
from lading.api.logins.authentication import authenticate
from lading.api.services import ApiServices
from lading.client.api import ApiClient
from lading.client.record_events import Reconnected, events
from lading.core.errors import Full, Unavailable
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.schema import JSON
from lading.store import event_audiences, records, tokens
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World


class Socket:
    """The client's end of a websocket."""

    def __init__(self) -> None:
        self._in: asyncio.Queue[Any] = asyncio.Queue()
        self._out: asyncio.Queue[Any] = asyncio.Queue()
        self.gone = False

    async def deliver(self, message: Any) -> None:
        if self.gone:
            raise OSError("connection lost")
        await self._out.put(message)

    async def send(self, message: JSON) -> None:
        text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
        await self._in.put({"type": "websocket.receive", "text": text})

    async def receive(self) -> JSON:
        message = await asyncio.wait_for(self._out.get(), 60)
        return (
            msgspec.json.decode(message["text"]) if message["type"] == "websocket.send" else message
        )

    async def ask(self, message: JSON) -> JSON:
        await self.send(message)
        return await self.receive()


class QuickSocket(Socket):
    """The client's end of a server that sends texts at once while the client `keeps_up`."""

    keeps_up = True

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []

    def send_at_once(self, texts: list[str]) -> bool:
        if self.keeps_up:
            self.writes.append(len(texts))
            for text in texts:
                self._out.put_nowait({"type": "websocket.send", "text": text})
        return self.keeps_up


@asynccontextmanager
async def connected(
    it: World, token: str | None = None, path: str = "/websocket", quick: QuickSocket | None = None
) -> AsyncIterator[Socket]:
    socket = quick or Socket()
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": path,
        "query_string": f"api_token={it.admin if token is None else token}".encode(),
        "headers": [],
        "subprotocols": [],
    }
    if quick is not None:
        scope["extensions"] = {websocket.SEND_AT_ONCE: {"send": quick.send_at_once}}
    await socket._in.put({"type": "websocket.connect"})
    task = asyncio.create_task(it.app(scope, socket._in.get, socket.deliver))
    yield socket
    await socket._in.put({"type": "websocket.disconnect", "code": 1000})
    await asyncio.wait_for(task, 60)


async def test_events_of_what_changes(it: World) -> None:
    async with connected(it) as socket:
        assert (await socket.receive())["type"] == "websocket.accept"
        filters = [["event_type", "in", ["create", "update"]]]
        assert await socket.ask({"method": "subscribe", "filters": filters}) == {"status": 200}
        request = await it.submit(state="Uncommitted")
        image = await socket.receive()
        event = await socket.receive()
        assert (image["msgID"], event["msgID"]) == (1, 2)
        assert (event["object_uuid"], event["event_type"]) == (request["uuid"], "create")
        assert event["object_kind"] == "arvados#containerRequest"
        assert event["properties"]["new_attributes"]["state"] == "Uncommitted"
        assert "command" not in event["properties"]["new_attributes"]
        await it.ok("PUT", f"container_requests/{request['uuid']}", {"state": "Committed"})
        assert (await socket.receive())["object_kind"] == "arvados#container"
        states = (await socket.receive())["properties"]
        assert (states["old_attributes"]["state"], states["new_attributes"]["state"]) == (
            "Uncommitted",
            "Committed",
        )
        await it.ok("DELETE", f"container_requests/{request['uuid']}")
        assert (await socket.receive())["event_type"] == "update"


@pytest.mark.parametrize(
    "message",
    [
        "{",
        "[]",
        "5",
        {"method": "dance"},
        {"method": "subscribe", "filters": [1]},
        {"method": "subscribe", "filters": [["created_at", ["="], "2026-01-01"]]},
        '{"method":"subscribe","filters":' + "[" * 5000 + "]" * 5000 + "}",
        {"method": "unsubscribe", "filters": []},
    ],
)
async def test_bad_messages(it: World, message: JSON) -> None:
    async with connected(it) as socket:
        await socket.receive()
        assert await socket.ask(message) == {"status": 400}


@pytest.mark.parametrize(
    ("token", "path", "code"),
    [
        ("", "/websocket", 4401),
        ("x", "/websocket", 4401),
        ("scoped", "/websocket", 4401),
        ("inactive", "/websocket", 4401),
        (None, "/elsewhere", 4404),
    ],
)
async def test_who_may_listen(it: World, token: str | None, path: str, code: int) -> None:
    if token == "scoped":
        made = await it.ok(
            "POST", "api_client_authorizations", {"scopes": ["GET /arvados/v1/users"]}
        )
        token = made["api_token"]
    if token == "inactive":
        token = await it.user("u")
        user = await it.ok("GET", "users/current", token=token)
        await it.ok("PUT", f"users/{user['uuid']}", {"is_active": False})
    async with connected(it, token, path) as socket:
        message = await socket.receive()
        assert (message["type"], message["code"]) == ("websocket.close", code)


async def test_what_passes_is_not_a_refusal(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable(*_: object) -> None:
        raise Unavailable

    monkeypatch.setattr(websocket, "authenticate", unavailable)
    async with connected(it) as socket:
        assert (await socket.receive())["type"] == "websocket.accept"
        message = await socket.receive()
        assert (message["type"], message["code"]) == ("websocket.close", 1013)


async def test_clients_come_back_after_what_passes(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = authenticate, [Unavailable("locked"), Full("full")]

    async def sometimes(services: ApiServices, token: str) -> Principal | None:
        if failures:
            raise failures.pop()
        return await real(services, token)

    async def at_once(seconds: float) -> None:
        """Try again without a pause."""

    monkeypatch.setattr(websocket, "authenticate", sometimes)
    client = ApiClient(AsgiTransport(it.app), it.dispatcher)
    async with aclosing(events(client, sleep=at_once)) as stream, asyncio.timeout(180):
        assert await anext(stream) == Reconnected()
    assert failures == []


@pytest.mark.parametrize("message", [{"method": "subscribe", "last_log_id": 0}, None])
async def test_a_database_that_fails_ends_the_connection_for_now(
    it: World, monkeypatch: pytest.MonkeyPatch, message: JSON
) -> None:
    async def unavailable(*_: object, **__: object) -> None:
        raise Unavailable

    token = await it.user("u")
    async with connected(it, token) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe"})
        made = await it.submit(token=token, state="Uncommitted")
        await socket.receive()
        await socket.receive()
        with monkeypatch.context() as patch:
            patch.setattr(records, "exists", unavailable)
            patch.setattr(event_audiences, "readers_of", unavailable)
            if message is None:
                await it.ok(
                    "PUT", f"container_requests/{made['uuid']}", {"state": "Committed"}, token=token
                )
            else:
                patch.setattr(records, "search", unavailable)
                assert await socket.ask(message) == {"status": 200}
            assert (await socket.receive())["code"] == 1013


async def test_a_scoped_token_hears_of_what_it_may_read(it: World) -> None:
    async with connected(it, it.dispatcher) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe"})
        await it.ok("POST", "collections", {"name": "not for dispatchers"})
        made = await it.submit("true")
        assert (await socket.receive())["object_uuid"] == made["container_uuid"]


async def test_subscriptions_have_an_end(it: World) -> None:
    async with connected(it) as socket:
        await socket.receive()
        for _ in range(100):
            assert await socket.ask({"method": "subscribe"}) == {"status": 200}
        assert await socket.ask({"method": "subscribe"}) == {"status": 400}


@pytest.mark.parametrize(
    "filters",
    [
        [["event_type", "in", ["update"] * 600]],
        [["created_at", ">", "2020-01-01T00:00:00Z"]] * 600,
    ],
)
async def test_the_values_of_all_filters_are_bounded(it: World, filters: list[object]) -> None:
    async with connected(it) as socket:
        await socket.receive()
        message = {"method": "subscribe", "filters": filters}
        assert await socket.ask(message) == {"status": 200}
        assert await socket.ask(message) == {"status": 400}
        assert await socket.ask({"method": "unsubscribe", "filters": filters}) == {"status": 200}
        assert await socket.ask(message) == {"status": 200}


async def test_users_hear_of_their_own(it: World) -> None:
    token = await it.user("u")
    await it.ensure_image(token)
    async with connected(it, token) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe", "filters": []})
        await it.ok("POST", "collections", {"name": "not theirs"})
        await it.submit("not theirs")
        mine = await it.submit("mine", token=token)
        assert (await socket.receive())["object_uuid"] == mine["container_uuid"]
        assert (await socket.receive())["object_uuid"] == mine["uuid"]


async def test_replay(it: World) -> None:
    made = await it.ok("POST", "collections", {"name": "missed"})
    await it.ok("POST", "api_client_authorizations", {})
    last = (await it.ok("GET", "logs", params={"filters": [["object_uuid", "=", made["uuid"]]]}))[
        "items"
    ][0]["id"]
    async with connected(it) as socket:
        await socket.receive()
        assert await socket.ask({"method": "subscribe", "last_log_id": 2**70}) == {"status": 200}
        assert await socket.ask({"method": "unsubscribe"}) == {"status": 200}
        message = {"method": "subscribe", "filters": [], "last_log_id": last - 1}
        assert await socket.ask(message) == {"status": 200}
        assert (await socket.receive())["object_uuid"] == made["uuid"]
        assert await socket.ask({"method": "unsubscribe", "filters": []}) == {"status": 200}
        await it.ok("POST", "collections", {"name": "unheard"})
        assert await socket.ask({"method": "subscribe"}) == {"status": 200}


@pytest.mark.parametrize(
    ("one", "matches"),
    [
        (["event_type", "in", ["update"]], False),
        (["event_type", "in", ["create"]], True),
        (["created_at", ">", "2020-01-01"], True),
        (["created_at", "<=", "2020-01-01"], False),
        (["created_at", "<", "2020-01-01"], False),
        (["created_at", ">=", "2020-01-01"], True),
        (["created_at", "=", "2020-01-01"], False),
        (["created_at", ">", "noon"], True),
        (["created_at", ">", "0001-01-01T00:00:00+14:00"], True),
        (["object_uuid", "=", "x"], True),
        (["object_uuid", "is_a", "arvados#container"], True),
        (["object_uuid", "is_a", ["arvados#user", "arvados#container"]], True),
        (["object_uuid", "is_a", ["arvados#user"]], False),
    ],
)
def test_filters(one: JSON, matches: bool) -> None:
    event = LogEvent(
        id=1,
        uuid="l",
        object_uuid="o",
        object_owner_uuid="u",
        object_kind="arvados#container",
        event_type="create",
        event_at="2026-01-01T00:00:00.000000000Z",
        properties={},
    )
    assert event_reader.matches(one, event) is matches


async def test_dispatchers_take_offers_until_they_unsubscribe(it: World) -> None:
    message = {"method": "subscribe", "filters": [], "offers": ["state", "priority"]}
    async with connected(it) as socket:
        await socket.receive()
        (listener,) = it.app.services.events.bus.listeners
        assert await socket.ask(message) == {"status": 200}
        token = await it.ok("GET", "api_client_authorizations/current")
        request = await it.submit()
        told = await socket.receive()
        while told["object_kind"] != "arvados#container":
            assert "record" not in told
            told = await socket.receive()
        container = await it.ok("GET", f"containers/{request['container_uuid']}")
        assert told["record"] == {"state": "Queued", "priority": container["priority"]}
        assert listener.dispatcher == token["uuid"]
        await socket.send({"method": "unsubscribe", "filters": []})
        while "status" not in (told := await socket.receive()):
            assert "record" not in told
        assert listener.dispatcher == ""


async def test_who_is_no_dispatcher_is_refused_offers(it: World) -> None:
    async with connected(it, await it.user("somebody")) as socket:
        await socket.receive()
        await socket.send({"method": "subscribe", "filters": [], "offers": ["state"]})
        assert (await socket.receive())["code"] == 4401


@pytest.mark.parametrize("offers", [True, "state", ["nonsense"], [[]], {}])
async def test_offers_are_attributes_of_containers(it: World, offers: JSON) -> None:
    async with connected(it) as socket:
        await socket.receive()
        message = {"method": "subscribe", "filters": [], "offers": offers}
        assert await socket.ask(message) == {"status": 400}


async def test_signs_of_life_and_lost_listeners(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "PING", 0.001)
    async with connected(it) as socket:
        await socket.receive()
        assert await socket.receive() == {}
        (listener,) = it.app.services.events.bus.listeners
        listener.lost = True
        message = await socket.receive()
        while message == {}:
            message = await socket.receive()
        assert message["type"] == "websocket.close"


def test_texts_are_passed_as_they_are() -> None:
    assert audit.listened({"text": "x"}) == {"text": "x"}


async def test_a_client_that_went_away(it: World) -> None:
    async with connected(it) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe", "filters": []})

        socket.gone = True
        await it.ok("POST", "collections", {"name": "unheard"})


async def heard(socket: Socket, number: int) -> list[tuple[str, str]]:
    """What the next so many events are about."""
    events = [await socket.receive() for _ in range(number)]
    return [(one["event_type"], one["object_uuid"]) for one in events]


async def test_each_subscription_replays_its_own_and_nothing_twice(it: World) -> None:
    last = (await it.ok("GET", "logs", params={"order": "id desc", "limit": 1}))["items"][0]["id"]
    made = await it.ok("POST", "links", {"link_class": "tag", "name": "a"})
    await it.ok("PUT", f"links/{made['uuid']}", {"name": "b"})
    async with connected(it) as socket:
        await socket.receive()
        creates, updates = [["event_type", "in", ["create"]]], [["event_type", "in", ["update"]]]
        for filters in (creates, updates):
            asked = {"method": "subscribe", "filters": filters, "last_log_id": last}
            assert await socket.ask(asked) == {"status": 200}
            assert await heard(socket, 1) == [(filters[0][2][0], made["uuid"])]
        other = await it.ok("POST", "links", {"link_class": "tag", "name": "c"})
        assert await heard(socket, 1) == [("create", other["uuid"])]


async def test_what_happens_during_a_replay_is_told_after_it(it: World) -> None:
    last = (await it.ok("GET", "logs", params={"order": "id desc", "limit": 1}))["items"][0]["id"]
    uuids = [
        (await it.ok("POST", "links", {"link_class": "tag", "name": "x"}))["uuid"] for _ in range(3)
    ]
    async with connected(it) as socket:
        await socket.receive()
        await socket.send({"method": "subscribe", "filters": [], "last_log_id": last})
        uuids += [
            (await it.ok("POST", "links", {"link_class": "tag", "name": "x"}))["uuid"]
            for _ in range(3)
        ]
        assert await socket.receive() == {"status": 200}
        assert await heard(socket, 6) == [("create", uuid) for uuid in uuids]


async def test_rows_that_users_write_are_events_too(it: World) -> None:
    made = await it.ok("POST", "collections", {"name": "talked about"})
    async with connected(it) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe", "filters": [["event_type", "in", ["stderr"]]]})
        body = {
            "object_uuid": made["uuid"],
            "event_type": "stderr",
            "properties": {"text": "hello", "more": 1},
        }
        await it.ok("POST", "logs", {"log": body})
        assert (await socket.receive())["properties"] == {"text": "hello", "more": 1}


async def test_deletes_are_told_to_the_owner_only(it: World) -> None:
    mine, other = await it.user("mine"), await it.user("other")
    async with connected(it, mine) as socket, connected(it, other) as deaf:
        for one in (socket, deaf):
            await one.receive()
            await one.ask({"method": "subscribe", "filters": [["event_type", "in", ["delete"]]]})
        made = await it.ok("POST", "links", {"link_class": "tag", "name": "x"}, token=mine)
        await it.ok("DELETE", f"links/{made['uuid']}", token=mine)
        assert await heard(socket, 1) == [("delete", made["uuid"])]
        theirs = await it.ok("POST", "links", {"link_class": "tag", "name": "y"}, token=other)
        await it.ok("DELETE", f"links/{theirs['uuid']}", token=other)
        assert await heard(deaf, 1) == [("delete", theirs["uuid"])]


async def test_deletes_in_a_shared_project(it: World) -> None:
    reader = await it.user("reader")
    uuid = (await it.ok("GET", "users/current", token=reader))["uuid"]
    project = await it.ok("POST", "groups", {"name": "p", "group_class": "project"})
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": uuid,
        "head_uuid": project["uuid"],
    }
    await it.ok("POST", "links", link)
    async with connected(it, reader) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe", "filters": [["event_type", "in", ["delete"]]]})
        made = await it.ok(
            "POST", "links", {"link_class": "tag", "name": "x", "owner_uuid": project["uuid"]}
        )
        await it.ok("DELETE", f"links/{made['uuid']}")
        assert await heard(socket, 1) == [("delete", made["uuid"])]


async def test_a_move_from_a_place_that_the_reader_cannot_look_into(it: World) -> None:
    reader = await it.user("reader")
    uuid = (await it.ok("GET", "users/current", token=reader))["uuid"]
    places = [
        (await it.ok("POST", "groups", {"name": name, "group_class": "project"}))["uuid"]
        for name in "abc"
    ]
    for place in places[1:]:
        link = {
            "link_class": "permission",
            "name": "can_read",
            "tail_uuid": uuid,
            "head_uuid": place,
        }
        await it.ok("POST", "links", link)
    made = (
        await it.ok("POST", "links", {"link_class": "tag", "name": "x", "owner_uuid": places[0]})
    )["uuid"]
    home = (await it.ok("GET", "users/current"))["uuid"]
    async with connected(it, reader) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe", "filters": [["event_type", "in", ["update"]]]})
        for place, told in (
            (places[1], None),
            (places[2], places[1]),
            (home, None),
            (places[1], None),
        ):
            await it.ok("PUT", f"links/{made}", {"owner_uuid": place})
            if place != home:
                properties = (await socket.receive())["properties"]
                assert properties["new_attributes"]["owner_uuid"] == place
                assert properties.get("old_attributes", {}).get("owner_uuid") == told
    async with connected(it, reader) as late:
        await late.receive()
        await late.ask(
            {"method": "subscribe", "filters": [["event_type", "in", ["update"]]], "last_log_id": 0}
        )
        told_late = [(await late.receive())["properties"] for _ in range(3)]
        assert [one["new_attributes"]["owner_uuid"] for one in told_late] == [
            places[1],
            places[2],
            places[1],
        ]
        assert home not in str(told_late)


async def test_a_replay_with_a_token_that_has_ended(it: World) -> None:
    user = await it.user("u")
    async with connected(it, user) as socket:
        await socket.receive()
        await it.ok("DELETE", f"api_client_authorizations/{user.split('/')[1]}")
        message = await socket.ask({"method": "subscribe", "filters": [], "last_log_id": 0})
        while message == {"status": 200}:
            message = await socket.receive()
        assert (message["type"], message["code"]) == ("websocket.close", 4401)


async def test_a_token_that_ended_hears_no_more(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "PING", 0.05)
    user = await it.user("u")
    async with connected(it, user) as socket:
        await socket.receive()
        assert await socket.receive() == {}
        await it.ok("DELETE", f"api_client_authorizations/{user.split('/')[1]}")
        message = await socket.receive()
        while message == {}:
            message = await socket.receive()
        assert (message["type"], message["code"]) == ("websocket.close", 4401)


async def test_a_token_that_another_server_took_back_hears_nothing_a_second_later(
    it: World,
) -> None:
    user = await it.user("u")
    uuid = await me(it, user)
    async with connected(it, user) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe"})
        await it.ok("POST", "collections", {"name": "before"}, token=user)
        assert (await socket.receive())["properties"]["new_attributes"]["name"] == "before"
        async with it.database.writing() as tx:
            await tokens.expire_tokens(tx, [user.split("/")[1]], it.app.services.clock.now())
        it.clock.advance(1)
        await it.ok("POST", "collections", {"owner_uuid": uuid, "name": "after"})
        message = await socket.receive()
        assert (message["type"], message["code"]) == ("websocket.close", 4401)


@pytest.mark.parametrize("way", ["token", "user"])
async def test_a_listener_that_was_switched_off_here_hears_nothing_more(
    it: World, way: str
) -> None:
    user = await it.user("u")
    uuid = await me(it, user)
    async with connected(it, user) as socket:
        await socket.receive()
        await socket.ask(
            {"method": "subscribe", "filters": [["object_uuid", "is_a", "arvados#collection"]]}
        )
        await it.ok("POST", "collections", {"name": "before"}, token=user)
        assert (await socket.receive())["properties"]["new_attributes"]["name"] == "before"
        if way == "token":
            await it.ok("DELETE", f"api_client_authorizations/{user.split('/')[1]}")
        else:
            await it.ok("PUT", f"users/{uuid}", {"is_active": False})
        await it.ok("POST", "collections", {"owner_uuid": uuid, "name": "after"})
        message = await socket.receive()
        assert (message["type"], message["code"]) == ("websocket.close", 4401)


@pytest.mark.parametrize(("seconds", "times"), [(0, 1), (1, 5), (-3600, 5)])
async def test_who_listens_is_looked_up_once_a_second(
    it: World, monkeypatch: pytest.MonkeyPatch, seconds: int, times: int
) -> None:
    looked_up = []

    async def counted(services: ApiServices, token: str) -> Principal | None:
        looked_up.append(token)
        return await authenticate(services, token)

    user = await it.user("u")
    async with connected(it, user) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe"})
        monkeypatch.setattr(event_reader, "authenticate", counted)
        for number in range(5):
            it.clock.advance(seconds)
            await it.ok("POST", "collections", {"name": str(number)}, token=user)
            assert (await socket.receive())["properties"]["new_attributes"]["name"] == str(number)
        assert looked_up == [user] * times


async def test_listeners_with_one_token_are_looked_up_together(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []

    async def counted(services: ApiServices, token: str) -> Principal | None:
        looked_up.append(token)
        return await authenticate(services, token)

    monkeypatch.setattr(event_reader, "authenticate", counted)
    user = await it.user("u")
    async with connected(it, user) as one, connected(it, user) as other:
        for socket in (one, other):
            await socket.receive()
            await socket.ask({"method": "subscribe"})
        await it.ok("POST", "collections", {"name": "c"}, token=user)
        for socket in (one, other):
            assert (await socket.receive())["properties"]["new_attributes"]["name"] == "c"
        assert looked_up == [user]
        # Not for longer than each would hold by itself.
        await it.ok("POST", "users", {"email": "x@example.org"})
        it.clock.advance(1)
        await it.ok("POST", "collections", {"name": "d"}, token=user)
        for socket in (one, other):
            assert (await socket.receive())["properties"]["new_attributes"]["name"] == "d"
        assert looked_up == [user] * 2


async def test_events_that_come_together_are_one_write(it: World) -> None:
    quick = QuickSocket()
    async with connected(it, quick=quick) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe", "filters": []})
        (listener,) = it.app.services.events.bus.listeners
        await it.ok("POST", "collections", {"name": "one"})
        event = await socket.receive()
        told = LogEvent(**{name: value for name, value in event.items() if name != "msgID"})
        quick.writes.clear()
        for number in range(3):
            listener.put(replace(told, id=told.id + 1 + number))
        assert [(await socket.receive())["msgID"] for _ in range(3)] == [2, 3, 4]
        assert quick.writes == [3]
        # One that is behind gets them in their order, by the queue.
        quick.keeps_up = False
        for number in range(3, 6):
            listener.put(replace(told, id=told.id + 1 + number))
        assert (await socket.receive())["msgID"] == 5
        quick.keeps_up = True
        listener.put(replace(told, id=told.id + 7))
        assert [(await socket.receive())["msgID"] for _ in range(3)] == [6, 7, 8]


async def me(it: World, token: str) -> str:
    return str((await it.ok("GET", "users/current", token=token))["uuid"])


async def test_a_client_that_does_not_read_is_let_go(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "PING", 0.01)
    stuck = asyncio.Event()

    class Stuck(Socket):
        async def deliver(self, message: Any) -> None:
            if message["type"] == "websocket.send":
                stuck.set()
                await asyncio.Event().wait()
            await super().deliver(message)

    monkeypatch.setitem(globals(), "Socket", Stuck)
    async with connected(it) as socket:
        await socket.receive()
        await asyncio.wait_for(stuck.wait(), 60)
        assert (await socket.receive())["type"] == "websocket.close"


async def test_a_client_with_a_full_queue_is_let_go(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "PATIENCE", 0.01)
    stuck = asyncio.Event()

    class Stuck(Socket):
        async def deliver(self, message: Any) -> None:
            if "msgID" in message.get("text", ""):
                stuck.set()
                await asyncio.Event().wait()
            await super().deliver(message)

    monkeypatch.setitem(globals(), "Socket", Stuck)
    async with connected(it) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe", "filters": []})
        for number in range(websocket.QUEUE + 1):
            await it.ok("POST", "collections", {"name": str(number)})
        await asyncio.wait_for(stuck.wait(), 60)
        assert socket._out.empty(), "a full queue is borne for a moment"
        await it.ok("POST", "collections", {"name": "one too many"})
        message = await socket.receive()
        assert (message["type"], message["code"]) == ("websocket.close", 1013)


async def test_many_events_at_once_reach_a_client_that_reads(it: World) -> None:
    async with connected(it) as socket:
        await socket.receive()
        await socket.ask({"method": "subscribe", "filters": []})
        (listener,) = it.app.services.events.bus.listeners
        await it.ok("POST", "collections", {"name": "one"})
        event = await socket.receive()
        told = LogEvent(**{name: value for name, value in event.items() if name != "msgID"})
        for number in range(5 * websocket.QUEUE):
            listener.put(replace(told, id=told.id + 1 + number))
        heard = [(await socket.receive())["msgID"] for _ in range(5 * websocket.QUEUE)]
    assert heard == list(range(2, 5 * websocket.QUEUE + 2))


async def test_a_dispatcher_hears_of_what_waits_and_of_what_it_has_locked(it: World) -> None:
    scopes = list(access.ARVADOS_DISPATCHER_SCOPES)
    made = await it.ok("POST", "api_client_authorizations", {"scopes": scopes})
    other = f"v2/{made['uuid']}/{made['api_token']}"
    async with connected(it, other) as socket, connected(it, it.dispatcher) as holder:
        for one in (socket, holder):
            await one.receive()
            assert await one.ask({"method": "subscribe", "filters": []}) == {"status": 200}
        uuid = (await it.submit("true", "1"))["container_uuid"]
        await it.run(uuid)
        later = (await it.submit("true", "2"))["container_uuid"]
        heard: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
        for is_holder, one in ((False, socket), (True, holder)):
            while not heard[is_holder] or heard[is_holder][-1][0] != later:
                event = await one.receive()
                state = event["properties"]["new_attributes"]["state"]
                heard[is_holder].append((event["object_uuid"], state))
        assert heard[False] == [(uuid, "Queued"), (uuid, "Locked"), (later, "Queued")]
        states = [state for _, state in heard[True]]
        assert states == ["Queued", "Locked", "Running", "Complete", "Queued"]
        await it.ok("DELETE", f"containers/{uuid}")
        await it.submit("true", "3")
        assert (await socket.receive())["object_uuid"] != uuid

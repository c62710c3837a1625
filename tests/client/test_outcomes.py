"""How requests ended; waiting for them is tested with `lading wait` too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from lading.client.api import ApiClient
from lading.client.outcomes import EndWatch, RequestOutcome, wait_for_all, watch_ends
from lading.core.errors import LadingError, NotFound, Unavailable
from lading.testing.asgi import AsgiTransport
from lading.testing.jumping_loop import jumping

REQUEST = {"uuid": "zzzzz-xvhdp-000000000000001", "state": "Final", "container_uuid": "c"}


@pytest.mark.parametrize(
    ("container", "code", "fault"),
    [
        (None, 125, "it never ran (see: lading request why zzzzz-xvhdp-000000000000001)"),
        ({"state": "Complete", "exit_code": 0}, 0, ""),
        ({"state": "Complete", "exit_code": 3}, 3, "exit code 3"),
        ({"state": "Complete", "exit_code": 300}, 1, "exit code 300"),
        ({"state": "Complete", "exit_code": None}, 125, "exit code None"),
        ({"state": "Cancelled", "runtime_status": {"error": "c: no disk."}}, 125, "no disk"),
        ({"state": "Cancelled", "runtime_status": None}, 125, "it was cancelled"),
    ],
)
def test_the_code_and_the_fault(container: dict[str, Any] | None, code: int, fault: str) -> None:
    outcome = RequestOutcome(REQUEST, container and {"uuid": "c", "exit_code": None, **container})
    assert (outcome.exit_code, outcome.fault) == (code, fault)


_START = "the command cannot be started: "


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"failure": "timeout", "error": "stopped after its max_run_time of 2 s"}, 124),
        ({"failure": "oom", "error": "x"}, 125),
        ({"error": f"{_START}executable file `x` not found in $PATH: No such file"}, 127),
        ({"error": f'{_START}exec: "/x": stat /x: no such file or directory: unknown'}, 127),
        ({"error": f"{_START}open executable: Permission denied; is the program in it?"}, 126),
        ({"error": f"{_START}executable file `x` cannot be run: Argument list too long"}, 126),
        ({"error": f"{_START}chdir to `/nowhere`: No such file or directory"}, 126),
    ],
)
def test_codes_without_an_exit_code(status: dict[str, Any], code: int) -> None:
    container = {"uuid": "c", "state": "Cancelled", "exit_code": None, "runtime_status": status}
    assert RequestOutcome(REQUEST, container).exit_code == code


class Api(ApiClient):
    """A client whose server has these records, and no websocket."""

    def __init__(self, *requests: dict[str, Any]) -> None:
        self.requests = list(requests)
        self.asked = 0

    async def list(self, plural: str, **_: object) -> list[dict[str, Any]]:
        """The requests, each of which is Final from the second call on, or the container."""
        if plural == "containers":
            return [{"uuid": "c", "state": "Complete", "exit_code": 0, "output": "o"}]
        self.asked += 1
        state = "Final" if self.asked > 1 else "Committed"
        return [{**one, "state": state} for one in self.requests]


@jumping
async def test_waiting_needs_no_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(_: ApiClient) -> AsyncGenerator[object]:
        for one in tuple[object, ...]():
            yield one
        raise LadingError

    monkeypatch.setattr("lading.client.record_events.events", none)
    told: list[tuple[int, int]] = []
    api = Api(REQUEST)
    (outcome,) = await wait_for_all(api, [REQUEST["uuid"]], lambda *both: told.append(both))
    assert (outcome.exit_code, told) == (0, [(0, 1), (1, 1)])


@jumping
async def test_the_end_is_seen_after_the_server_was_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Restarting(Api):
        async def list(self, plural: str, **_: object) -> list[dict[str, Any]]:
            rows = await super().list(plural)
            if plural != "containers" and self.asked < 30:
                raise Unavailable("no answer")
            return rows

    async def none(_: ApiClient, **__: object) -> AsyncGenerator[object]:
        for one in tuple[object, ...]():
            yield one
        raise LadingError

    monkeypatch.setattr("lading.client.record_events.events", none)
    api = Restarting(REQUEST)
    (outcome,) = await wait_for_all(api, [REQUEST["uuid"]])
    assert (outcome.exit_code, api.asked) == (0, 30)


@jumping
async def test_a_deleted_request_is_told() -> None:
    with pytest.raises(NotFound, match="x: was deleted"):
        await wait_for_all(Api(REQUEST), ["x"])


class Server:
    """Requests that end when they are told to, with a websocket; it notes each list of requests."""

    def __init__(self, *uuids: str) -> None:
        self.states = dict.fromkeys(uuids, "Committed")
        self.lists: list[list[str]] = []
        self.meanwhile: list[str] = []
        """Requests of which an end is told while the next list is answered."""
        self._sockets: list[WebSocket] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._tell(WebSocket(scope, receive, send))
            return
        query = parse_qs(scope["query_string"].decode())
        ((_, _, wanted),) = msgspec.json.decode(query["filters"][0])
        if scope["path"].endswith("/containers"):
            rows = [{"uuid": one, "state": "Complete", "exit_code": 0} for one in wanted]
        else:
            self.lists.append(wanted)
            told, self.meanwhile = self.meanwhile, []
            await self.end(*told)
            # The client takes the events before it has the answer.
            for _ in range(20):
                await asyncio.sleep(0)
            held = {"container_uuid": "c", "name": "", "priority": 1}
            known = [one for one in wanted if one in self.states]
            rows = [{"uuid": one, "state": self.states[one], **held} for one in known]
        await JSONResponse({"items": rows})(scope, receive, send)

    @property
    def listeners(self) -> int:
        """Number of connections for events so far."""
        return len(self._sockets)

    async def _tell(self, socket: WebSocket) -> None:
        await socket.accept()
        await socket.receive_text()
        self._sockets.append(socket)
        await socket.send_text('{"status":200}')
        await socket.receive()

    async def end(self, *uuids: str) -> None:
        """Let requests become Final, and tell of each."""
        for uuid in uuids:
            self.states[uuid] = "Final"
            await self.tell(uuid, "update", state="Final")

    async def tell(self, uuid: str, kind: str, **new: str) -> None:
        """Send an event to all that listen."""
        event = {"event_type": kind, "object_uuid": uuid, "properties": {"new_attributes": new}}
        for socket in self._sockets:
            await socket.send_text(msgspec.json.encode(event).decode())


@asynccontextmanager
async def watching(server: Server) -> AsyncGenerator[EndWatch]:
    """A watch of all requests of a server that has listed them for its new connection."""
    api = ApiClient(AsgiTransport(server), "secret")
    async with asyncio.timeout(60), watch_ends(api, server.states) as watch:
        while len(server.lists) < 2:
            await watch.look()
        server.lists.clear()
        yield watch


@jumping
async def test_requests_that_have_ended_are_told_without_listening() -> None:
    server = Server("a", "b")
    await server.end("a", "b")
    ended = await wait_for_all(ApiClient(AsgiTransport(server), "secret"), ["a", "b"])
    assert [one.exit_code for one in ended] == [0, 0]
    assert (server.lists, server.listeners) == ([["a", "b"]], 0)


@jumping
async def test_only_requests_that_ended_are_listed() -> None:
    server = Server(*"abcd")
    async with watching(server) as watch:
        await server.tell("a", "update", state="Committed")
        await server.tell("foreign", "update", state="Final")
        await server.end("b")
        (first,) = (await watch.look()).ended
        assert first.request["uuid"] == "b"
        del server.states["c"]
        await server.tell("c", "delete")
        await server.end("a")
        look = await watch.look()
        assert [one.request["uuid"] for one in look.ended] == ["a"]
        assert look.deleted == ["c"]
    assert server.lists == [["b"], ["a", "c"]]


@jumping
async def test_many_ends_are_few_lists() -> None:
    uuids = [f"{number:02}" for number in range(40)]
    server = Server(*uuids, "long")
    async with watching(server) as watch:
        await server.end(uuids[0])
        assert len((await watch.look()).ended) == 1
        await server.end(*uuids[1:])
        assert len((await watch.look()).ended) == 39
    assert len(server.lists) == 2


@jumping
async def test_the_last_end_is_seen_at_once() -> None:
    server = Server("a", "b")
    clock = asyncio.get_running_loop().time
    async with watching(server) as watch:
        await server.end("a")
        await watch.look()
        began = clock()
        await server.end("b")
        assert (await watch.look()).ended
        assert clock() - began < 0.4


@jumping
async def test_a_request_that_is_added_is_looked_at() -> None:
    server = Server("a")
    async with watching(server) as watch:
        server.states["b"] = "Final"
        watch.add(["b"])
        assert [one.request["uuid"] for one in (await watch.look()).ended] == ["b"]
    assert server.lists == [["b"]]


@jumping
async def test_an_end_that_is_told_while_it_is_listed_is_reported_once() -> None:
    server = Server("a", "b", "c")
    async with watching(server) as watch:
        server.meanwhile = ["a"]
        await server.end("a")
        assert [one.request["uuid"] for one in (await watch.look()).ended] == ["a"]
        await server.end("b")
        assert [one.request["uuid"] for one in (await watch.look()).ended] == ["b"]
    assert server.lists == [["a"], ["b"]]

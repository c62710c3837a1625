"""The real dispatcher. Its fleet of one host and its API client are reached by messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from signal import Signals
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from lading.client.api import ApiClient
from lading.client.record_events import Reconnected, RecordEvent
from lading.client.retry import NO_RETRY
from lading.client.transport import Response
from lading.core.errors import LadingError
from lading.core.resources import GIB, Resources
from lading.core.scheduling.planning import FleetWorker
from lading.dispatch.fleet import FleetView, LookUp, StartRequest, SupervisorProcess
from lading.dispatch.run import run
from lading.dispatch.settings import DispatchSettings
from lading.testing.plain_transport import ExchangesOnly
from tests.simulation.host import Host
from tests.simulation.server import IMAGE, ModelServer, refusal
from tests.simulation.tables import token_text, uuid_of
from tests.simulation.traffic import Stream, Traffic

SETTINGS = DispatchSettings(kill_patience=60.0, min_retry=1.0, refusal_pause=60.0)
CAPACITY = Resources(4, GIB)


class MessageTransport(ExchangesOnly):
    """Implements `Transport` over messages, and the websocket of one dispatcher."""

    def __init__(self, name: str, token: str, server: ModelServer, traffic: Traffic) -> None:
        self._name = name
        self._token = token
        self._server = server
        self._traffic = traffic
        self._inbox: asyncio.Queue[RecordEvent | Reconnected] = asyncio.Queue()
        self._stream: Stream | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = 0.0,
    ) -> Response:
        """Send a request; the response. A lost message raises Unavailable."""
        del timeout
        url, content = urlsplit(path), bytes(body)
        query = url.query
        if headers.get("X-Http-Method-Override") == "GET":
            method, query, content = "GET", content.decode(), b""
        where = url.path.removeprefix("/arvados/v1/")
        sent = msgspec.json.decode(content) if content else None
        params = dict(parse_qsl(query, keep_blank_values=True))
        try:
            answer = await self._traffic.exchange(
                f"api {self._name} {method} {where}",
                lambda: self._server.call(self._token, method, where, sent, params),
                # Sent by the local socket, without a proxy between.
                is_single=bool(sent and "ready_images" in sent),
            )
        except LadingError as error:
            status, said = refusal(error)
            return Response(status, {}, said)
        return Response(200, {}, msgspec.json.encode(answer))

    def connect(self) -> None:
        """Open the websocket anew: events under way are lost, and the dispatcher is told so."""
        self.close_stream()
        token = uuid_of(self._token)
        self._stream = Stream(self._traffic, f"event {self._name}", self._take, token)
        self._server.streams.append(self._stream)
        self._inbox.put_nowait(Reconnected())

    def close_stream(self) -> None:
        """Break the websocket: events under way are lost."""
        if self._stream is not None:
            self._stream.close()
            if self._stream in self._server.streams:
                self._server.streams.remove(self._stream)
            self._traffic.drop(f"event {self._name}")

    async def events(self) -> AsyncGenerator[RecordEvent | Reconnected]:
        """Events of the websocket, without end."""
        while True:
            yield await self._inbox.get()

    def _take(self, item: object) -> None:
        if isinstance(item, RecordEvent):
            self._inbox.put_nowait(item)


class HostFleet:
    """Implements `Fleet` for one host. Its view is what messages of the host have reported."""

    def __init__(self, host: Host, traffic: Traffic, name: str) -> None:
        self._host = host
        self._traffic = traffic
        self._name = name
        self._known = self._left = False
        self._shown: dict[str, SupervisorProcess] = {}
        self._since: dict[str, int] = {}
        self._change = asyncio.Event()
        self._stream = Stream(traffic, f"fleet {name}", self._learn)
        self.queue: Any = None
        host.watchers.append(self._tell)
        self._tell()

    def leave(self) -> None:
        """Stop listening to the host."""
        self._left = True
        self._host.watchers.remove(self._tell)
        self._stream.close()

    def set_lookup(self, look: LookUp) -> None:
        """Keep the queue that `look` belongs to, for the invariants."""
        self.queue = getattr(look, "__self__", None)

    def view(self) -> FleetView:
        """The view, from the messages that have arrived."""
        workers = (FleetWorker(self._host.name, CAPACITY),) if self._known else ()
        images = (IMAGE,) if self._host.has_images else ()
        return FleetView(
            is_known=self._known,
            workers=workers,
            processes=dict(self._shown),
            ready_images=images,
        )

    async def changed(self) -> None:
        """Wait until the view may have changed."""
        await self._change.wait()
        self._change.clear()

    async def start(self, assignment: StartRequest) -> None:
        """Start a supervisor on the host."""
        uuid, token, known = assignment.uuid, assignment.token, assignment.records

        def start() -> int:
            return self._host.start(
                uuid, token, known, late=self._left, is_started=assignment.is_started
            )

        try:
            self._since[uuid] = await self._ask("start", uuid, start)
        finally:
            self._host.void.add(token)
        if uuid not in self._shown:
            self._shown[uuid] = SupervisorProcess(self._host.name)
        self._change.set()

    async def signal(self, uuid: str, number: Signals) -> None:
        """Send a signal to a supervisor."""
        kill = number is Signals.SIGKILL
        await self._ask("signal", uuid, partial(self._host.signal, uuid, kill=kill))

    async def clean(self, uuid: str) -> None:
        """Clear away the rest of a dead supervisor."""
        self._since[uuid] = await self._ask("clean", uuid, partial(self._host.clean, uuid))
        one = self._shown.get(uuid)
        if one is not None and not one.alive:
            del self._shown[uuid]
        self._change.set()

    async def _ask(self, what: str, uuid: str, act: Callable[[], Any]) -> Any:
        return await self._traffic.exchange(f"host {self._name} {what} {uuid[-3:]}", act)

    def _tell(self) -> None:
        self._stream.send((self._host.version, self._host.list()))

    def _learn(self, item: object) -> None:
        """Merge a list of the host; it is older than starts and cleanings of later versions."""
        assert isinstance(item, tuple)
        version, listed = item
        since = self._since
        shown = {uuid: one for uuid, one in self._shown.items() if since.get(uuid, 0) > version}
        for uuid in self._shown.keys() | listed.keys():
            if since.get(uuid, 0) <= version:
                # A process that is not listed any more has ended and removed its directory.
                shown[uuid] = listed.get(uuid) or SupervisorProcess(self._host.name, alive=False)
        self._shown, self._known = shown, True
        self._change.set()


class Dispatcher:
    """A dispatcher process, which can crash and be started again with the same token."""

    def __init__(
        self,
        name: str,
        token: str,
        host: Host,
        server: ModelServer,
        traffic: Traffic,
    ) -> None:
        self.name = name
        self.token = token
        self.host = host
        self._server = server
        self._traffic = traffic
        self._transport: MessageTransport | None = None
        self.fleet: HostFleet | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether the process runs."""
        return self._task is not None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the process in `loop`."""
        token = token_text(self.token)
        self._transport = MessageTransport(self.name, token, self._server, self._traffic)
        self.fleet = HostFleet(self.host, self._traffic, self.name)
        client = ApiClient(self._transport, token, retry=NO_RETRY)
        self._transport.connect()
        self._task = loop.create_task(
            run(client, self.fleet, SETTINGS, events=self._transport.events(), clock=loop.time),
            name=self.name,
        )

    def crash(self) -> None:
        """End the process at once. Its requests under way may still be carried out."""
        if self._task is not None and self._transport is not None and self.fleet is not None:
            self._transport.close_stream()
            self.fleet.leave()
            self._task.cancel()
            self._task = None

    def interrupt(self) -> None:
        """The server was started again: open the websocket anew."""
        if self._transport is not None and self._task is not None:
            self._transport.connect()

    def check(self) -> None:
        """Raise the exception that ended the process, AssertionError if it ended without one."""
        if self._task is not None and self._task.done():
            self._task.result()
            raise AssertionError(f"{self.name} has ended")

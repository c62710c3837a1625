"""A dispatcher as it really is, with a fleet of one host behind messages, and a client behind messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from signal import Signals
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from lading.client.api import ApiClient
from lading.client.events import Event, Reconnected
from lading.client.retry import NO_RETRY
from lading.client.transport import Response
from lading.core.errors import LadingError
from lading.core.sizing import GIB, Resources
from lading.dispatch.fleet import Assignment, FleetView, Look, Process, WorkerView
from lading.dispatch.run import run
from lading.dispatch.settings import Settings
from lading.testing.exchanges import ExchangesOnly
from lading.testing.simulation.host import Host
from lading.testing.simulation.server import ModelServer, refusal
from lading.testing.simulation.tables import token_text
from lading.testing.simulation.traffic import Stream, Traffic

SETTINGS = Settings(kill_patience=60.0, min_retry=1.0, refusal_pause=60.0)
CAPACITY = Resources(4, GIB)


class Line(ExchangesOnly):
    """Implements `Transport` and the events of one dispatcher."""

    def __init__(self, name: str, token: str, server: ModelServer, traffic: Traffic) -> None:
        self._name = name
        self._token = token
        self._server = server
        self._traffic = traffic
        self._inbox: asyncio.Queue[Event | Reconnected] = asyncio.Queue()
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
        """One exchange."""
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
            )
        except LadingError as error:
            status, said = refusal(error)
            return Response(status, {}, said)
        return Response(200, {}, msgspec.json.encode(answer))

    def connect(self) -> None:
        """Open the websocket (again): what was on its way is lost, and the dispatcher hears that it may be."""
        self.close_stream()
        self._stream = Stream(self._traffic, f"event {self._name}", self._take)
        self._server.streams.append(self._stream)
        self._inbox.put_nowait(Reconnected())

    def close_stream(self) -> None:
        """The websocket breaks."""
        if self._stream is not None:
            self._stream.close()
            if self._stream in self._server.streams:
                self._server.streams.remove(self._stream)
            self._traffic.drop(f"event {self._name}")

    async def events(self) -> AsyncGenerator[Event | Reconnected]:
        """What the websocket brings."""
        while True:
            yield await self._inbox.get()

    def _take(self, item: object) -> None:
        if isinstance(item, Event):
            self._inbox.put_nowait(item)


class HostFleet:
    """Implements `Fleet` for one host: what it shows is what messages have told it."""

    def __init__(self, host: Host, traffic: Traffic, name: str) -> None:
        self._host = host
        self._traffic = traffic
        self._name = name
        self._known = False
        self._shown: dict[str, Process] = {}
        self._since: dict[str, int] = {}
        self._change = asyncio.Event()
        self._stream = Stream(traffic, f"fleet {name}", self._learn)
        self.queue: Any = None
        host.watchers.append(self._tell)
        self._tell()

    def leave(self) -> None:
        """The dispatcher is gone."""
        self._host.watchers.remove(self._tell)
        self._stream.close()

    def heed(self, look: Look) -> None:
        """Keeps what it belongs to, for the invariants."""
        self.queue = getattr(look, "__self__", None)

    def view(self) -> FleetView:
        """What is known now."""
        workers = (WorkerView(self._host.name, CAPACITY),) if self._known else ()
        return FleetView(known=self._known, workers=workers, processes=dict(self._shown))

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._change.wait()
        self._change.clear()

    async def start(self, assignment: Assignment) -> None:
        """Begin a process."""
        uuid, token, known = assignment.uuid, assignment.token, assignment.known
        self._since[uuid] = await self._ask("start", uuid, lambda: self._host.start(uuid, token, known))
        if uuid not in self._shown:
            self._shown[uuid] = Process(self._host.name)
        self._change.set()

    async def signal(self, uuid: str, number: Signals) -> None:
        """Signal a process."""
        await self._ask("signal", uuid, lambda: self._host.signal(uuid, kill=number is Signals.SIGKILL))

    async def clean(self, uuid: str) -> None:
        """Clear away a dead process."""
        self._since[uuid] = await self._ask("clean", uuid, lambda: self._host.clean(uuid))
        one = self._shown.get(uuid)
        if one is not None and not one.alive:
            del self._shown[uuid]
        self._change.set()

    async def _ask(self, what: str, uuid: str, act: Callable[[], Any]) -> Any:
        return await self._traffic.exchange(f"host {self._name} {what} {uuid[-3:]}", act)

    def _tell(self) -> None:
        self._stream.send((self._host.version, self._host.list()))

    def _learn(self, item: object) -> None:
        """A list of the host, which says nothing about what was started or cleared away after it was made."""
        assert isinstance(item, tuple)
        version, listed = item
        shown = {uuid: one for uuid, one in self._shown.items() if self._since.get(uuid, 0) > version}
        for uuid in self._shown.keys() | listed.keys():
            if self._since.get(uuid, 0) <= version:
                # What is not listed any more ended and took its directory along.
                shown[uuid] = listed.get(uuid) or Process(self._host.name, alive=False)
        self._shown, self._known = shown, True
        self._change.set()


class Dispatcher:
    """One dispatcher process, which can crash and come back with the same token."""

    def __init__(self, name: str, token: str, host: Host, server: ModelServer, traffic: Traffic) -> None:
        self.name = name
        self.token = token
        self.host = host
        self._server = server
        self._traffic = traffic
        self._line: Line | None = None
        self.fleet: HostFleet | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._task is not None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin."""
        self._line = Line(self.name, token_text(self.token), self._server, self._traffic)
        self.fleet = HostFleet(self.host, self._traffic, self.name)
        client = ApiClient(self._line, token_text(self.token), retry=NO_RETRY)
        self._line.connect()
        self._task = loop.create_task(
            run(client, self.fleet, SETTINGS, events=self._line.events(), clock=loop.time),
            name=self.name,
        )

    def crash(self) -> None:
        """Gone at once: what it had asked may still be done, nobody hears the answers."""
        if self._task is not None and self._line is not None and self.fleet is not None:
            self._line.close_stream()
            self.fleet.leave()
            self._task.cancel()
            self._task = None

    def interrupt(self) -> None:
        """The server is another process now: the websocket has to be opened again."""
        if self._line is not None and self._task is not None:
            self._line.connect()

    def check(self) -> None:
        """Raises what ended it, if anything did."""
        if self._task is not None and self._task.done():
            self._task.result()
            raise AssertionError(f"{self.name} has ended")

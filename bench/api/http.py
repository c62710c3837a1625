"""A client that costs little: requests are bytes made beforehand, answers are read for status and
length only.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import msgspec

from bench.api.process import Server


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Its document."""
        return msgspec.json.decode(self.body)


class Link(asyncio.Protocol):
    """One connection, one call at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiting: asyncio.Future[Reply] | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._needed = -1
        self._start = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready to call."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def call(self, request: bytes) -> asyncio.Future[Reply]:
        """Send a request."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def data_received(self, data: bytes) -> None:
        """Part of an answer."""
        self._buffer += data
        if self._needed < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            at = head.index(b"content-length: ") + 16
            length = head.find(b"\r", at)
            self._start = end + 4
            self._needed = self._start + int(head[at : length if length > 0 else None])
        if len(self._buffer) >= self._needed and self._waiting is not None:
            reply = Reply(int(self._buffer[9:12]), bytes(self._buffer[self._start : self._needed]))
            self._buffer.clear()
            self._needed = -1
            waiting, self._waiting = self._waiting, None
            waiting.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits is told."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(
                error or ConnectionError("the server closed the connection")
            )

    def close(self) -> None:
        """Done with it."""
        if self._transport is not None:
            self._transport.close()


@contextlib.asynccontextmanager
async def linked(socket: Path, count: int) -> AsyncIterator[list[Link]]:
    """Connections to a server."""
    loop = asyncio.get_running_loop()
    links = [(await loop.create_unix_connection(Link, str(socket)))[1] for _ in range(count)]
    try:
        yield links
    finally:
        for one in links:
            one.close()


def get(path: str, token: str, **params: object) -> bytes:
    """A GET request; parameters are sent as JSON, as clients do."""
    query = urlencode(
        {
            name: one if isinstance(one, str) else encode(one).decode()
            for name, one in params.items()
        }
    )
    return _request("GET", f"{path}?{query}" if query else path, token, b"")


def post(path: str, token: str, document: object = None, *, method: str = "POST") -> bytes:
    """A POST request."""
    return _request(method, path, token, encode(document) if document is not None else b"")


def _request(method: str, path: str, token: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
    if method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Run:
    """Calls made one after another on each of several connections."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    server: float = 0.0
    """Processor seconds of the server."""
    database: float = 0.0
    client: float = 0.0

    @property
    def count(self) -> int:
        """How many calls there were."""
        return len(self.latencies)

    def answers(self, *statuses: int) -> Iterator[Reply]:
        """The answers. Raises RuntimeError for one with another status."""
        for one in self.replies:
            if one.status not in statuses:
                raise RuntimeError(f"answered {one.status}: {one.body[:500].decode()}")
            yield one


@contextlib.contextmanager
def metered(server: Server, run: Run) -> Iterator[None]:
    """Measure what happens meanwhile."""
    before, began = server.spent(), time.perf_counter()
    yield
    run.seconds = time.perf_counter() - began
    after = server.spent()
    run.server, run.database, run.client = (
        late - early for late, early in zip(after, before, strict=True)
    )


async def drive(
    server: Server,
    requests: Iterable[bytes],
    *,
    connections: int,
    statuses: tuple[int, ...] = (200,),
) -> Run:
    """Make all calls, `connections` at a time. Raises RuntimeError when an answer has another
    status.
    """
    run, left = Run(), iter(requests)

    async def work(link: Link) -> None:
        for request in left:
            began = time.perf_counter()
            reply = await link.call(request)
            run.latencies.append(time.perf_counter() - began)
            run.replies.append(reply)

    async with linked(server.socket, connections) as links:
        with metered(server, run):
            await asyncio.gather(*map(work, links))
    for _ in run.answers(*statuses):
        pass
    return run

"""A receiver of webhooks on this machine: it answers well or badly, and notes what came."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Act = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request: its path, its headers in lower case, and its body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass(slots=True, kw_only=True)
class Receiver:
    """`acts` are the answers to the next requests; then `act` is the answer to each. `came` is set
    by each request.
    """

    port: int = 0
    received: list[Received] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    act: Act
    came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = dict(line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in fields.items()}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.received.append(Received(path=head[0].split(" ")[1], headers=headers, body=body))
            self.came.set()
            await (self.acts.pop(0) if self.acts else self.act)(writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


def answers(status: int, *fields: str) -> Act:
    """Answer with a status and further lines of the head."""

    async def act(writer: asyncio.StreamWriter) -> None:
        lines = (f"HTTP/1.1 {status} X", "Content-Length: 0", *fields, "", "")
        writer.write("\r\n".join(lines).encode())

    return act


async def hangs(writer: asyncio.StreamWriter) -> None:
    """Answer nothing until the connection ends."""
    await writer.wait_closed()


async def cuts(writer: asyncio.StreamWriter) -> None:
    """End the connection in the middle of the head."""
    writer.write(b"HTTP/1.1 200")


async def never_ends(writer: asyncio.StreamWriter) -> None:
    """Answer 200 with a body without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


async def drips(writer: asyncio.StreamWriter) -> None:
    """Answer a byte of a head at a time, for ever."""
    closed = asyncio.ensure_future(writer.wait_closed())
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not closed.done():
        writer.write(b"x")
        await asyncio.wait((closed,), timeout=0.01)
    await closed


async def swells(writer: asyncio.StreamWriter) -> None:
    """Answer a head without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not writer.transport.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


@asynccontextmanager
async def receiving(
    act: Act = answers(200),  # noqa: B008
    *,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Receiver]:
    """A receiver that listens while the context lasts."""
    made = Receiver(act=act)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()

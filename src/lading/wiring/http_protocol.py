"""The HTTP protocol of the server, with three extensions for the application.

`RECEIVE_INTO`: a large body is written straight into memory which the application names.

Every other way to read a body copies it four times and wakes the application for each 64 KiB. The
application finds the extension `RECEIVE_INTO` in the scope of a request that announces its length;
while it is used, the connection hands its bytes to a buffered protocol instead of the HTTP parser,
and a new parser takes over after the last of them.

`TAKE_OVER`: a request with the header Upgrade, for anything but our own websockets, may turn its
connection into plain bytes. Such a connection serves no second request, taken over or not. The
header Connection has to name Upgrade, but for the protocols `ssh` and `tunnel`: Arvados' own
programs do not send it with them.

`PEER`: the application says that a request was authenticated, so that its connection is no
stranger's any more.

Heads are limited in size and time, a body that was refused is not read beyond
`HttpLimits.linger_bytes`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from lading.api.container_access.port_addresses import PortAddresses
from lading.api.http import TAKE_OVER
from lading.blobs.body_reader import RECEIVE_INTO, Extend, Progress
from lading.core.protocols.connection_limits import LOCAL, Connection, ConnectionTable, HttpLimits
from lading.net.http_upgrade import LIMIT
from lading.net.peer import PEER, Peer
from lading.net.pipes import Pipe

_WEBSOCKET = b"/websocket"
_EVENTS = b"text/event-stream"
_LARGEST_FORM = 1 << 16
_ALONE = frozenset({b"ssh", b"tunnel"})
"""Protocols that clients request with Upgrade but without Connection (docs/spec/api, section
Sessions and tunnels).
"""
_UNCOUNTED = ConnectionTable(HttpLimits())
"""Table with the limits for connections without an acceptor."""
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b"
)


class ReceivingProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with the extensions and the limits."""

    sites = PortAddresses()
    """Hosts and ports of containers."""
    _is_touch = False
    is_taken_over = False
    _is_switching = False
    """The message is one that asks for another protocol, and the parser has ended."""
    _switches_after = False
    """The message asks for another protocol in a way that the parser does not know: it reads the
    body to its end.
    """
    _missing = 0
    _data = b""
    early = b""
    """What came after a request that asks for another protocol."""
    _has_head = False
    """Whether the head of the message that comes is complete."""
    _has_begun = False
    """Whether a part of a head has come."""
    _events = 0
    """Parts of messages that the parser has told of."""
    _unparsed = 0
    """Bytes of which the parser has told nothing: heads, trailers, extensions of chunks."""
    _forgotten = -1
    """Bytes that were read and forgotten since the answer to a refused message; -1 before."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.admitted_as(Peer(_UNCOUNTED, Connection(LOCAL, 0.0)))

    def admitted_as(self, peer: Peer) -> None:
        """Take the place in the table that this connection was given."""
        self._peer, self._table, self._connection = peer, peer.table, peer.connection
        self._limits = peer.table.limits
        self.app_state = {**self.app_state, PEER: peer}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._table.wait(self._connection, self.loop.time() + self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the table."""
        self._peer.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Let the method TOUCH of Keep pass, which the parser does not know; count what is no part
        of a body.
        """
        if self._forgotten >= 0:
            self._forget(data)
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if data.startswith(b"TOUCH /") and (cycle is None or cycle.response_complete):
            self._is_touch, data = True, b"PATCH" + data[5:]
        if self._is_switching:
            self._take_rest(data)
            return
        if not self._has_begun and self._connection.is_waiting:
            self._has_begun = True
            self._table.wait(self._connection, self.loop.time() + self._limits.head_seconds)
        self._data, events = data, self._events
        super().data_received(data)
        self._data = b""
        self._unparsed = self._unparsed + len(data) if events == self._events else 0
        if self._unparsed > self._limits.head_bytes:
            self._refuse_head()

    def on_message_begin(self) -> None:
        """A head begins. Raises ValueError after a request that asks for another protocol."""
        if self._is_switching:
            raise ValueError("the other protocol was not waited for")
        self._has_head = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of a head; nobody reads those of a trailer."""
        if not self._has_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Count a part of a message."""
        self._events += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count a part of a message."""
        self._events += 1
        self._is_switching = self._switches_after
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the end of the connection."""
        if self.cycle.response_complete:
            # What came of a body that nobody read.
            self.cycle.body = bytearray()
        super().on_response_complete()
        limits = self._limits
        if self._forgotten >= 0:
            return
        if self.transport.is_closing():
            self._table.wait(self._connection, self.loop.time() + limits.head_seconds)
        elif self.cycle.response_complete:
            self._has_begun = False
            self._table.wait(self._connection, self.loop.time() + limits.idle_seconds)

    def pause_writing(self) -> None:
        """The other side takes nothing for now."""
        self._table.stall(self._connection, self.loop.time())
        super().pause_writing()

    def resume_writing(self) -> None:
        """The other side reads on."""
        if not self._connection.is_waiting:
            self._table.serve(self._connection)
        super().resume_writing()

    def on_headers_complete(self) -> None:
        """Offer the extensions; those for a body when its length is known."""
        self._has_head = True
        self._events += 1
        self._check_head()
        self._table.serve(self._connection)
        before = self.cycle
        super().on_headers_complete()
        if len(self.pipeline) > self._limits.pipelined:
            raise ValueError("too many requests that wait for an answer")
        if self._is_touch:
            self._is_touch, self.scope["method"] = False, "TOUCH"
        self._switches_after = self.cycle is not before and self._asks_alone()
        if self.cycle is not before and (self._switches_after or self.parser.should_upgrade()):
            self.cycle.keep_alive = False
            cast("dict[str, Any]", self.scope).setdefault("extensions", {})[TAKE_OVER] = _Switch(
                self, self.cycle
            )
        if self.cycle is before:
            return
        fields = dict(self.headers)
        length = fields.get(b"content-length", b"")
        is_sized = length.isdigit() and int(length) > 0
        if is_sized:
            cast("dict[str, Any]", self.scope).setdefault("extensions", {})[RECEIVE_INTO] = (
                _Reception(self, self.cycle)
            )
        if is_sized or b"transfer-encoding" in fields:
            self.cycle.transport = cast(asyncio.Transport, _Lingering(self))
            if not is_sized or int(length) > self._limits.stranger_body_bytes:
                # Not the rest of a small body: that is read whatever the answer is.
                self.cycle.__class__ = _LargeCycle

    def shutdown(self) -> None:
        """The server ends: a connection that was taken over, or has an answer without an end, ends
        as well.
        """
        if self.is_taken_over or (self.headers and dict(self.headers).get(b"accept") == _EVENTS):
            self.transport.close()
        else:
            super().shutdown()

    def _check_head(self) -> None:
        """Raises ValueError for a head that is too large, which ends the connection."""
        most = self._limits.head_bytes
        if len(self._data) + self._unparsed <= most:
            return
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > most:
            self._refuse_head()
            raise ValueError("too large a head")

    def _refuse_head(self) -> None:
        if self.transport.is_closing() or self._forgotten >= 0:
            return
        text = f"The head of the request has more than {self._limits.head_bytes} bytes.\n".encode()
        self.transport.write(_TOO_LARGE % (len(text), text))
        self.linger()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, unless it was refused before."""
        if self._forgotten < 0:
            super().send_400_response(msg)

    def linger(self) -> None:
        """Close the connection when the other side has seen the answer; what it still sends is
        forgotten.

        Bytes that nobody read would make the system break the connection, and the answer might be
        lost. Source: RFC 9112, 9.6.
        """
        if self.transport.is_closing() or self._forgotten >= 0:
            return
        self._forgotten = 0
        self._table.wait(self._connection, self.loop.time() + self._limits.linger_seconds)
        self.transport.set_protocol(self)
        self.flow.resume_reading()
        self.loop.call_later(self._limits.linger_seconds, self.transport.close)

    def _forget(self, data: bytes) -> None:
        self._forgotten += len(data)
        if self._forgotten > self._limits.linger_bytes:
            self.transport.abort()

    def eof_received(self) -> None:
        """The other side ends: nothing is waited for."""
        if self._forgotten >= 0:
            self.transport.close()

    def _should_upgrade_to_ws(self) -> bool:
        ours = self.url.partition(b"?")[0].rstrip(b"/") == _WEBSOCKET
        return (
            ours
            and self.sites.find({"headers": self.headers, "path": ""}) is None
            and super()._should_upgrade_to_ws()
        )

    def _asks_alone(self) -> bool:
        """Whether the header Upgrade asks for another protocol without Connection."""
        wanted = dict(self.headers).get(b"upgrade", b"").lower()
        return (
            wanted in _ALONE and self.scope["method"] == "POST" and not self.parser.should_upgrade()
        )

    def _unsupported_upgrade_warning(self) -> None:
        """The parser leaves the body of a request that asks for another protocol; whatever that is,
        it is read here.
        """
        error = sys.exc_info()[1]
        offset = error.args[0] if error is not None and error.args else len(self._data)
        length = dict(self.headers).get(b"content-length", b"0")
        self._missing = int(length) if length.isdigit() else 0
        self._is_switching = True
        if self._missing > _LARGEST_FORM:
            self.send_400_response("The body of a request for another protocol is too large.")
            return
        self._take_rest(self._data[offset:])

    def _take_rest(self, data: bytes) -> None:
        cycle, part = self.cycle, data[: self._missing]
        cycle.body += part
        self._missing -= len(part)
        cycle.more_body = self._missing > 0
        self.early += data[len(part) :]
        if len(self.early) > _LARGEST_FORM:
            self.flow.pause_reading()
        cycle.message_event.set()

    def divert(self, target: asyncio.BufferedProtocol | None) -> None:
        """Hand what comes from now on to `target`; None takes the connection back for the next
        request.
        """
        self.flow.pause_reading()
        self.transport.set_protocol(target or self)
        if target is None:
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.flow.resume_reading()


class EventsProtocol(WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol, whose connection is counted as well."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the table."""
        peer = self.app_state.get(PEER)
        if peer is not None:
            peer.leave()
        super().connection_lost(exc)


class _LargeCycle(RequestResponseCycle):
    """A request with a large body. The connection is not used again when the answer comes before
    its end.
    """

    async def send(self, message: Any) -> None:
        """Send a part of the answer."""
        if not self.response_started and self.more_body:
            self.keep_alive = False
        await super().send(message)


class _Lingering:
    """The transport as a cycle uses it: it is not closed before the answer was seen."""

    def __init__(self, protocol: ReceivingProtocol) -> None:
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._protocol.transport.write(data)

    def is_closing(self) -> bool:
        """Whether the connection ends."""
        return self._protocol.transport.is_closing()

    def close(self) -> None:
        """End the connection, at once where all of the body has come."""
        protocol = self._protocol
        if protocol.cycle.more_body:
            protocol.linger()
        else:
            protocol.transport.close()


class _Switch:
    """The extension `TAKE_OVER` for one request."""

    def __init__(self, protocol: ReceivingProtocol, cycle: RequestResponseCycle) -> None:
        self._protocol = protocol
        self._cycle = cycle

    async def __call__(self, head: bytes) -> Pipe:
        """Answer with `head`; from then on the connection is bytes, until the pipe is closed."""
        protocol, cycle = self._protocol, self._cycle
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LIMIT, loop=loop)
        streams = _Streams(reader, protocol)
        transport = protocol.transport
        cycle.response_started = cycle.response_complete = True
        protocol.is_taken_over = True
        if cycle.disconnected or transport.is_closing():
            reader.feed_eof()
        else:
            protocol.flow.resume_reading()
            transport.set_protocol(streams)
        streams.connection_made(transport)
        if protocol.early:
            reader.feed_data(protocol.early)
            protocol.early = b""
        transport.write(head)
        return Pipe(reader, asyncio.StreamWriter(transport, streams, reader, loop))


class _Streams(asyncio.StreamReaderProtocol):
    """Tells the server when the connection that was taken over has ended."""

    def __init__(self, reader: asyncio.StreamReader, protocol: ReceivingProtocol) -> None:
        super().__init__(reader)
        self._http = protocol

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._http.connection_lost(exc)


class _Reception:
    """The extension for one request."""

    def __init__(self, protocol: ReceivingProtocol, cycle: RequestResponseCycle) -> None:
        self._protocol = protocol
        self._cycle = cycle

    async def __call__(self, view: memoryview, progress: Progress, extend: Extend) -> int:
        """Fill `view`, as long as the whole body; how many bytes came before the connection
        ended.
        """
        cycle, protocol = self._cycle, self._protocol
        if cycle.waiting_for_100_continue and not protocol.transport.is_closing():
            protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        cycle.waiting_for_100_continue = False
        # What the parser has seen came together with the headers.
        body, cycle.body = cycle.body, bytearray()
        first, allowed = len(body), progress(0)
        while allowed < first:
            allowed = await extend(allowed)
        view[:first] = body
        allowed = progress(first)
        if first == len(view) or cycle.disconnected or protocol.transport.is_closing():
            return first
        filler = _Filler(protocol, cycle, view, first, progress)
        try:
            filler.allowed = allowed if allowed > first else await extend(first)
            protocol.divert(filler)
            while await filler.stopped():
                filler.allowed = await extend(filler.filled)
                protocol.flow.resume_reading()
        finally:
            if not filler.is_full:
                filler.give_up()
        return filler.filled


class _Filler(asyncio.BufferedProtocol):
    """Takes the place of the HTTP protocol until `view` is full."""

    def __init__(
        self,
        protocol: ReceivingProtocol,
        cycle: RequestResponseCycle,
        view: memoryview,
        filled: int,
        progress: Progress,
    ) -> None:
        self._protocol = protocol
        self._cycle = cycle
        self._view = view
        self._progress = progress
        self.is_full = self._is_lost = False
        self.filled = self.allowed = filled
        self._stopped = asyncio.Event()

    async def stopped(self) -> bool:
        """Wait until no more can come; whether that is for want of memory."""
        await self._stopped.wait()
        self._stopped.clear()
        return not self.is_full and not self._is_lost

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (the loop calls it so)
        """Where the next bytes go."""
        return self._view[self.filled : self.allowed]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes came."""
        self.filled += nbytes
        progress = self._progress
        if self.filled == len(self._view):
            self.is_full = True
            self._forget()
            # At once: the next byte belongs to the next request.
            self._cycle.more_body = False
            self._protocol.divert(None)
            self._stopped.set()
        self.allowed = progress(self.filled)
        if not self.is_full and self.allowed <= self.filled:
            self._protocol.flow.pause_reading()
            self._stopped.set()

    def give_up(self) -> None:
        """Leave the rest of the body unread: the connection cannot be used again."""
        self._cycle.keep_alive = False
        self._forget()
        if not self._protocol.transport.is_closing():
            self._protocol.flow.pause_reading()

    def _forget(self) -> None:
        # The transport may go on referring to this object: the memory must not hang on it.
        self._view, self._progress = memoryview(b""), _ignore

    def eof_received(self) -> None:
        """The other side has ended."""
        self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._is_lost = True
        self._protocol.connection_lost(exc)
        self._stopped.set()

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The transport's buffer has room."""
        self._protocol.resume_writing()


def _ignore(filled: int) -> int:
    """Nobody wants to know any more."""
    return filled

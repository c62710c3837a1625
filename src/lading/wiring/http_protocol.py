"""The HTTP protocol of the server: uvicorn's protocol with limits and three extensions.

`RECEIVE_INTO`: a large body is written straight into memory that the application names. Every other
way to read a body copies it four times and wakes the application for each 64 KiB. The application
finds the extension in the scope of a request that announces its length. While it is used, the
connection passes its bytes to a buffered protocol instead of the HTTP parser, and a new parser
continues after the last byte of the body.

`TAKE_OVER`: a request with the header Upgrade, other than for our own websockets, may turn its
connection into plain bytes. Such a connection serves no second request, taken over or not. The
header Connection has to name Upgrade, except for the protocols `ssh` and `tunnel`: Arvados' own
programs do not send it with them.

`PEER`: the application reports that a request was authenticated. Its connection then no longer
counts among those of unauthenticated clients.

Heads are limited in size and time. A refused body is read up to `HttpLimits.linger_bytes` only.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lading.api.container_access.port_addresses import PortAddresses
from lading.api.http import TAKE_OVER
from lading.blobs.transfer import RECEIVE_INTO, Extend, Progress
from lading.core.protocols.connection_limits import LOCAL, Connection, ConnectionTable, HttpLimits
from lading.net.acceptor import PEER, Peer
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import Pipe

_WEBSOCKET = b"/websocket"
# Websockets of the page.
_PAGE = b"/ui/"
# Media type of responses without an end (server-sent events).
_EVENTS = b"text/event-stream"
# An address whose responses have no end, however the client asks.
_STREAM = b"/events"
# Bytes. Largest body of a request for another protocol, and most data kept that came after it. Such
# bodies are short forms (user, command); more data stays in the kernel's buffer.
_LARGEST_FORM = 1 << 16
# Protocols that clients request with Upgrade but without Connection (docs/spec/api, section
# Sessions and tunnels).
_ALONE = frozenset({b"ssh", b"tunnel"})
# Table with the limits for connections without an acceptor.
_UNCOUNTED = ConnectionTable(HttpLimits())
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
    # The request asks for another protocol, and the parser has stopped after its head.
    _is_switching = False
    # The request asks for another protocol in a form that the parser does not know; the parser
    # reads the body to its end.
    _switches_after = False
    # Bytes of the body of a request for another protocol that have not come yet.
    _missing = 0
    # The data that the parser is working on.
    _data = b""
    early = b""
    """Bytes that follow a request for another protocol; the first bytes of that protocol."""
    # Whether the head of the current message is complete.
    _has_head = False
    # Whether a part of a head has come since the last response.
    _has_begun = False
    # Number of events of the parser: heads, parts of bodies, ends of messages.
    _events = 0
    # Bytes since the last event of the parser: heads, trailers, extensions of chunks. The parser
    # does not limit them, so this class does.
    _unparsed = 0
    # Bytes read and discarded since the response to a refused message; -1 before.
    _forgotten = -1

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Limits without an acceptor, as in tests; the acceptor replaces this with its own entry.
        self.admitted_as(Peer(_UNCOUNTED, Connection(LOCAL, 0.0)))

    def admitted_as(self, peer: Peer) -> None:
        """Take the entry of this connection in the connection table."""
        self._peer, self._table, self._connection = peer, peer.table, peer.connection
        self._limits = peer.table.limits
        self.app_state = {**self.app_state, PEER: peer}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first head."""
        super().connection_made(transport)
        self._table.wait(self._connection, self.loop.time() + self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the table."""
        self._peer.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data, and limit the bytes that belong to no body. The method TOUCH of Keep, which
        the parser does not know, is parsed as PATCH.
        """
        if self._forgotten >= 0:
            self._forget(data)
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)
        # Only between requests: in the middle of a head or of a body these bytes are data.
        is_between = not self._has_begun and (cycle is None or cycle.response_complete)
        if is_between and data.startswith(b"TOUCH /"):
            self._is_touch, data = True, b"PATCH" + data[5:]
        if self._is_switching:
            self._take_rest(data)
            return
        # Each head has its own time limit, which starts with its first byte.
        if not self._has_begun and self._connection.is_waiting:
            self._has_begun = True
            self._table.wait(self._connection, self.loop.time() + self._limits.head_seconds)
        self._data, events = data, self._events
        super().data_received(data)
        self._data = b""
        # Data with an event may end in the middle of a head; that part counts as 0, at most one
        # read.
        self._unparsed = self._unparsed + len(data) if events == self._events else 0
        if self._unparsed > self._limits.head_bytes:
            self._refuse_head()

    def on_message_begin(self) -> None:
        """A head begins. Raises ValueError after a request that asks for another protocol."""
        if self._is_switching:
            # Pipelined data after a request for another protocol cannot be a second request.
            raise ValueError("the other protocol was not waited for")
        self._has_head = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of a head; fields of trailers are dropped, since nothing reads them."""
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
            # Received bytes of a body that the application did not read.
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
        """The peer does not read, so the transport's buffer is full."""
        self._table.stall(self._connection, self.loop.time())
        super().pause_writing()

    def resume_writing(self) -> None:
        """The peer reads again."""
        if not self._connection.is_waiting:
            self._table.serve(self._connection)
        super().resume_writing()

    def on_headers_complete(self) -> None:
        """Offer the extensions of this server."""
        self._has_head = True
        self._events += 1
        self._check_head()
        self._table.serve(self._connection)
        # uvicorn makes no new cycle for a websocket handshake; `before` distinguishes the two
        # cases.
        before = self.cycle
        super().on_headers_complete()
        # uvicorn's pipeline is unlimited; each waiting request keeps its head in memory.
        if len(self.pipeline) > self._limits.pipelined:
            raise ValueError("too many requests that wait for an answer")
        if self._is_touch:
            self._is_touch, self.scope["method"] = False, "TOUCH"
        self._switches_after = self.cycle is not before and self._asks_alone()
        if self.cycle is not before and (self._switches_after or self.parser.should_upgrade()):
            # A connection that asked for another protocol serves no second request, accepted or
            # not.
            self.cycle.keep_alive = False
            cast("dict[str, Any]", self.scope).setdefault("extensions", {})[TAKE_OVER] = _Switch(
                self, self.cycle
            )
        if self.cycle is not before:
            self._offer_body()

    def _offer_body(self) -> None:
        """Offer the extensions for a body, and keep the connection open until it has been read."""
        fields = dict(self.headers)
        length = fields.get(b"content-length", b"")
        is_sized = length.isdigit() and int(length) > 0
        if is_sized:
            cast("dict[str, Any]", self.scope).setdefault("extensions", {})[RECEIVE_INTO] = (
                _BodyReceiver(self, self.cycle)
            )
        if is_sized or b"transfer-encoding" in fields:
            # The cycle must not close the connection while the client still sends: see _Lingering.
            self.cycle.transport = cast(asyncio.Transport, _Lingering(self))
            if not is_sized or int(length) > self._limits.stranger_body_bytes:
                # A small body is read to its end for any response, so the connection can be used
                # again.
                self.cycle.__class__ = _LargeCycle

    def shutdown(self) -> None:
        """Called at shutdown: close a connection that was taken over, or whose response has no end,
        at once; others finish their response.
        """
        is_endless = (
            bytes(self.url or b"").partition(b"?")[0] == _STREAM
            or dict(self.headers or ()).get(b"accept") == _EVENTS
        )
        if self.is_taken_over or is_endless:
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
        """Refuse data that is not HTTP, unless the message was refused before."""
        if self._forgotten < 0:
            super().send_400_response(msg)

    def linger(self) -> None:
        """Close the connection after the peer has received the response; discard the data that it
        still sends.

        Closing a socket with unread data makes the kernel send a reset, and the response may be
        lost. Source: RFC 9112, section 9.6.
        """
        if self.transport.is_closing() or self._forgotten >= 0:
            return
        self._forgotten = 0
        self._table.wait(self._connection, self.loop.time() + self._limits.linger_seconds)
        # A filler of a body may be the protocol of the transport; its data are discarded as well.
        self.transport.set_protocol(self)
        self.flow.resume_reading()
        # The peer may ignore the end: the connection is closed after this time in any case.
        self.loop.call_later(self._limits.linger_seconds, self.transport.close)

    def _forget(self, data: bytes) -> None:
        self._forgotten += len(data)
        if self._forgotten > self._limits.linger_bytes:
            self.transport.abort()

    def eof_received(self) -> None:
        """The peer has ended its side; a lingering connection is closed."""
        if self._forgotten >= 0:
            self.transport.close()

    def _should_upgrade_to_ws(self) -> bool:
        # Ports of containers have websockets of their own at any path, also these.
        path = self.url.partition(b"?")[0]
        ours = path.rstrip(b"/") == _WEBSOCKET or path.startswith(_PAGE)
        return (
            ours
            and self.sites.find({"headers": self.headers, "path": ""}) is None
            and super()._should_upgrade_to_ws()
        )

    def _asks_alone(self) -> bool:
        """Whether the header Upgrade asks for another protocol, without the header Connection."""
        wanted = dict(self.headers).get(b"upgrade", b"").lower()
        return (
            wanted in _ALONE and self.scope["method"] == "POST" and not self.parser.should_upgrade()
        )

    def _unsupported_upgrade_warning(self) -> None:
        """Take the body of a request for another protocol: uvicorn calls this when the parser stops
        at such a request, whose body it does not read.
        """
        # httptools reports the position behind the head in the exception that is being handled.
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
        # The application takes these bytes with the connection; until then the kernel keeps the
        # rest.
        if len(self.early) > _LARGEST_FORM:
            self.flow.pause_reading()
        cycle.message_event.set()

    def divert(self, target: asyncio.BufferedProtocol | None) -> None:
        """Pass incoming data to `target`; None returns the connection to the HTTP parser for the
        next request.
        """
        # No data may arrive between the two protocols.
        self.flow.pause_reading()
        self.transport.set_protocol(target or self)
        if target is None:
            # The old parser waits for the rest of a body that it never sees, so a new one is made.
            self.parser = httptools.HttpRequestParser(self)
            # As uvicorn sets its own parser: a pipelined request after one with Connection: close
            # is no error.
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.flow.resume_reading()


class _LargeCycle(RequestResponseCycle):
    """A request with a large body. The connection is closed when the response begins before the end
    of the body.
    """

    async def send(self, message: Any) -> None:
        """Send a part of the answer."""
        if not self.response_started and self.more_body:
            self.keep_alive = False
        await super().send(message)


class _Lingering:
    """The transport as uvicorn's cycle sees it: `close` waits until the peer has received the
    response.
    """

    def __init__(self, protocol: ReceivingProtocol) -> None:
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._protocol.transport.write(data)

    def is_closing(self) -> bool:
        """Whether the connection ends."""
        return self._protocol.transport.is_closing()

    def close(self) -> None:
        """Close the connection: at once when the whole body has come, otherwise by lingering."""
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
        """Send `head` as the response; from then on the connection carries plain bytes until the
        pipe is closed.
        """
        protocol, cycle = self._protocol, self._cycle
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LIMIT, loop=loop)
        streams = _Streams(reader, protocol)
        transport = protocol.transport
        # uvicorn then sends no response of its own for this request.
        cycle.response_started = cycle.response_complete = True
        protocol.is_taken_over = True
        if cycle.disconnected or transport.is_closing():
            reader.feed_eof()
        else:
            protocol.flow.resume_reading()
            transport.set_protocol(streams)
        # Called by hand, because the transport was connected long before.
        streams.connection_made(transport)
        # The client may send the first bytes of the new protocol without waiting for the response.
        if protocol.early:
            reader.feed_data(protocol.early)
            protocol.early = b""
        transport.write(head)
        return Pipe(reader, asyncio.StreamWriter(transport, streams, reader, loop))


class _Streams(asyncio.StreamReaderProtocol):
    """Reports the end of a taken-over connection to the HTTP protocol, which removes it from the
    table.
    """

    def __init__(self, reader: asyncio.StreamReader, protocol: ReceivingProtocol) -> None:
        super().__init__(reader)
        self._http = protocol

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._http.connection_lost(exc)


class _BodyReceiver:
    """The extension `RECEIVE_INTO` for one request."""

    def __init__(self, protocol: ReceivingProtocol, cycle: RequestResponseCycle) -> None:
        self._protocol = protocol
        self._cycle = cycle

    async def __call__(self, view: memoryview, progress: Progress, extend: Extend) -> int:
        """Receive the body into `view`, which is as long as the whole body; return the number of
        bytes that came before the connection ended. `progress` gets the number of bytes so far and
        returns the number allowed; `extend` waits for more memory.
        """
        cycle, protocol = self._cycle, self._protocol
        # uvicorn sends this when the application reads; here the application never reads.
        if cycle.waiting_for_100_continue and not protocol.transport.is_closing():
            protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        cycle.waiting_for_100_continue = False
        # The parser has this part already: it came in the same read as the headers.
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
                # Without the whole body the position of the next request is unknown.
                filler.give_up()
        return filler.filled


class _Filler(asyncio.BufferedProtocol):
    """Replaces the HTTP protocol until `view` is full."""

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
        """Wait until no more data can be taken. True when memory is missing, False at the end of
        the body or of the connection.
        """
        await self._stopped.wait()
        self._stopped.clear()
        return not self.is_full and not self._is_lost

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (the loop calls it so)
        """Memory for the next bytes; the event loop reads straight into it."""
        return self._view[self.filled : self.allowed]

    def buffer_updated(self, nbytes: int) -> None:
        """The event loop has read `nbytes` bytes."""
        self.filled += nbytes
        progress = self._progress
        if self.filled == len(self._view):
            self.is_full = True
            self._forget()
            # In this call, before the loop reads again: the next byte belongs to the next request.
            self._cycle.more_body = False
            self._protocol.divert(None)
            self._stopped.set()
        self.allowed = progress(self.filled)
        if not self.is_full and self.allowed <= self.filled:
            self._protocol.flow.pause_reading()
            self._stopped.set()

    def give_up(self) -> None:
        """Leave the rest of the body unread; the connection cannot be used again."""
        self._cycle.keep_alive = False
        self._forget()
        if not self._protocol.transport.is_closing():
            self._protocol.flow.pause_reading()

    def _forget(self) -> None:
        # The transport may keep a reference to this object, which must not keep the memory alive.
        self._view, self._progress = memoryview(b""), _ignore

    def eof_received(self) -> None:
        """The peer has ended its side."""
        self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
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
    """Progress after the end of a body: ignored."""
    return filled

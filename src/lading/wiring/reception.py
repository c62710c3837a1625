"""HTTP connections that the application may take further than HTTP.

`RECEIVE_INTO`: a large body is written straight into memory which the application names.

Every other way to read a body copies it four times and wakes the application for each 64 KiB. The application finds
the extension `RECEIVE_INTO` in the scope of a request that announces its length; while it is used, the connection
hands its bytes to a buffered protocol instead of the HTTP parser, and a new parser takes over after the last of them.

`TAKE_OVER`: a request with the header Upgrade, for anything but our own websockets, may turn its connection into plain
bytes. Such a connection serves no second request, taken over or not.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lading.api.exchange import TAKE_OVER
from lading.api.sites import Sites
from lading.blobs.intake import RECEIVE_INTO
from lading.client.piping import Pipe
from lading.client.switching import LIMIT

Progress = Callable[[int], None]
_WEBSOCKET = b"/websocket"
_EVENTS = b"text/event-stream"
_LARGEST_FORM = 1 << 16


class ReceivingProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with the extension."""

    sites = Sites()
    """Hosts and ports that are those of containers."""
    _is_touch = False
    is_taken_over = False
    _is_switching = False
    _missing = 0
    _data = b""
    early = b""
    """What came after a request that asks for another protocol."""

    def data_received(self, data: bytes) -> None:
        """Let the method TOUCH of Keep pass, which the parser does not know."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if data.startswith(b"TOUCH /") and (cycle is None or cycle.response_complete):
            self._is_touch, data = True, b"PATCH" + data[5:]
        if self._is_switching:
            self._take_rest(data)
            return
        self._data = data
        super().data_received(data)
        self._data = b""

    def on_headers_complete(self) -> None:
        """Offer the extension for a body of known length."""
        before = self.cycle
        super().on_headers_complete()
        if self._is_touch:
            self._is_touch, self.scope["method"] = False, "TOUCH"
        if self.cycle is not before and self.parser.should_upgrade():
            self.cycle.keep_alive = False
            cast("dict[str, Any]", self.scope).setdefault("extensions", {})[TAKE_OVER] = _Switch(self, self.cycle)
        length = dict(self.headers).get(b"content-length", b"")
        if self.cycle is not before and length.isdigit() and int(length) > 0:
            extensions = cast("dict[str, Any]", self.scope).setdefault("extensions", {})
            extensions[RECEIVE_INTO] = _Reception(self, self.cycle)

    def shutdown(self) -> None:
        """The server ends: a connection that was taken over, or has an answer without an end, ends as well."""
        if self.is_taken_over or (self.headers and dict(self.headers).get(b"accept") == _EVENTS):
            self.transport.close()
        else:
            super().shutdown()

    def _should_upgrade_to_ws(self) -> bool:
        ours = self.url.partition(b"?")[0].rstrip(b"/") == _WEBSOCKET
        return (
            ours and self.sites.find({"headers": self.headers, "path": ""}) is None and super()._should_upgrade_to_ws()
        )

    def _unsupported_upgrade_warning(self) -> None:
        """The parser leaves the body of a request that asks for another protocol; whatever that is, it is read here."""
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
        """Hand what comes from now on to `target`; None takes the connection back for the next request."""
        self.flow.pause_reading()
        self.transport.set_protocol(target or self)
        if target is None:
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.flow.resume_reading()


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

    async def __call__(self, view: memoryview, progress: Progress) -> int:
        """Fill `view`, as long as the whole body; how many bytes came before the connection ended."""
        cycle, protocol = self._cycle, self._protocol
        if cycle.waiting_for_100_continue and not protocol.transport.is_closing():
            protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        cycle.waiting_for_100_continue = False
        # What the parser has seen came together with the headers.
        first = len(cycle.body)
        view[:first], cycle.body = cycle.body, bytearray()
        progress(first)
        if first == len(view) or cycle.disconnected or protocol.transport.is_closing():
            return first
        filler = _Filler(protocol, cycle, view, first, progress)
        protocol.divert(filler)
        try:
            await filler.ended.wait()
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
        self.is_full = False
        self.filled = filled
        self.ended = asyncio.Event()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (the loop calls it so)
        """Where the next bytes go."""
        return self._view[self.filled :]

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
            self.ended.set()
        progress(self.filled)

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
        self._protocol.connection_lost(exc)
        self.ended.set()

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The transport's buffer has room."""
        self._protocol.resume_writing()


def _ignore(_: int) -> None:
    """Nobody wants to know any more."""

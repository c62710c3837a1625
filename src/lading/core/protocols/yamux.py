"""The yamux protocol, many streams over one connection, as a state machine without I/O.

A frame is 12 bytes, version 0, type, flags, stream, length, and for DATA so many bytes more.
Numbers are big-endian.

    DATA 0     length is the number of bytes that follow
    WINDOW 1   length is added to the peer's window
    PING 2     length is an opaque value; SYN asks, ACK answers
    GO AWAY 3  length is the reason: 0 normal, 1 protocol error, 2 error of the peer

    Flags of DATA and WINDOW: SYN 1 opens a stream, ACK 2 accepts it, FIN 4 ends one direction,
    RST 8 ends both.

The side that connected opens odd streams, the other even ones. Each may send 256 KiB on a stream
before the peer extends the window. `Multiplexer` is called with received bytes (`receive`) and with
requests (`open`, `send`, ...); it returns events and collects the bytes to send (`take`). Source:
the public specification; docs/spec/api, section Sessions and tunnels.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TypeAlias

from lading.core.errors import Malformed

# The initial window of the specification.
WINDOW = 256 << 10
HEADER = struct.Struct(">BBHII")
MOST_DATA = 64 << 10
"""Bytes of one frame that we send at most, so that streams take turns."""
# The only version of the protocol.
_VERSION = 0


class FrameKind(IntEnum):
    """Type of a frame."""

    DATA = 0
    WINDOW = 1
    PING = 2
    GO_AWAY = 3


class Flag(IntFlag):
    """Flags of a frame."""

    NONE = 0
    SYN = 1
    ACK = 2
    FIN = 4
    RST = 8


@dataclass(frozen=True, slots=True)
class Opened:
    """The peer opened a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes arrived; call `consumed` when they were used."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """The peer will send no more on the stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Reset:
    """The peer gave up the stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class WindowUpdate:
    """More may be sent on the stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Pong:
    """The peer answered a ping."""

    value: int


@dataclass(frozen=True, slots=True)
class GoneAway:
    """The peer opens and accepts no more streams."""

    reason: int


Event: TypeAlias = Opened | Data | Finished | Reset | WindowUpdate | Pong | GoneAway


@dataclass(slots=True)
class _Stream:
    # Bytes that we may send, that the peer may send, and that we have used but not yet granted
    # again.
    may_send: int = WINDOW
    may_come: int = WINDOW
    owed: int = 0
    ours_ended: bool = False
    theirs_ended: bool = False


class Multiplexer:
    """One end of a connection. `connected` is true for the side that connected; `most` limits the
    streams that the peer opens.
    """

    def __init__(self, *, connected: bool, most: int = 1024) -> None:
        self._next = 1 if connected else 2
        self._most = most
        self._streams: dict[int, _Stream] = {}
        self._output = bytearray()
        self._input = bytearray()
        # The DATA frame whose bytes are arriving: stream, flags, missing bytes.
        self._within: tuple[int, Flag, int] | None = None

    @property
    def streams(self) -> tuple[int, ...]:
        """The streams that are open in at least one direction."""
        return tuple(self._streams)

    def take(self) -> bytes:
        """Bytes to send to the peer now."""
        taken, self._output = bytes(self._output), bytearray()
        return taken

    # Requests of the caller.

    def open(self) -> int:
        """A new stream."""
        stream, self._next = self._next, self._next + 2
        self._streams[stream] = _Stream()
        self._put(FrameKind.WINDOW, Flag.SYN, stream, 0)
        return stream

    def room(self, stream: int) -> int:
        """Bytes that may be sent on the stream now; 0 for a stream that has ended."""
        found = self._streams.get(stream)
        return 0 if found is None or found.ours_ended else found.may_send

    def send(self, stream: int, data: bytes) -> int:
        """Send as much of `data` as the window allows; return the number of bytes."""
        taken = min(len(data), self.room(stream))
        for at in range(0, taken, MOST_DATA):
            part = data[at : min(taken, at + MOST_DATA)]
            self._put(FrameKind.DATA, Flag.NONE, stream, len(part))
            self._output += part
        if taken:
            self._streams[stream].may_send -= taken
        return taken

    def finish(self, stream: int) -> None:
        """Send no more on the stream; data of the peer still arrives."""
        found = self._streams.get(stream)
        if found is not None and not found.ours_ended:
            found.ours_ended = True
            self._put(FrameKind.DATA, Flag.FIN, stream, 0)
            self._forget_if_over(stream)

    def reset(self, stream: int) -> None:
        """End the stream in both directions at once."""
        if self._streams.pop(stream, None) is not None:
            self._put(FrameKind.DATA, Flag.RST, stream, 0)

    def consumed(self, stream: int, count: int) -> None:
        """The caller has used `count` bytes of the stream: the peer may send as many more."""
        state = self._streams.get(stream)
        if state is None or state.theirs_ended:
            return
        state.owed += count
        # Half a window at a time: a frame for each piece would be wasteful.
        if state.owed >= WINDOW // 2:
            self._put(FrameKind.WINDOW, Flag.NONE, stream, state.owed)
            state.may_come += state.owed
            state.owed = 0

    def ping(self, value: int) -> None:
        """Send a ping."""
        self._put(FrameKind.PING, Flag.SYN, 0, value)

    def go_away(self, reason: int = 0) -> None:
        """Announce that there will be no more streams."""
        self._put(FrameKind.GO_AWAY, Flag.NONE, 0, reason)

    # Frames of the peer.

    def receive(self, data: bytes) -> list[Event]:
        """The events in received bytes. Raises Malformed when the peer violates the protocol: close
        the connection.
        """
        self._input += data
        events: list[Event] = []
        while self._step(events):
            pass
        return events

    def _step(self, events: list[Event]) -> bool:
        if self._within is not None:
            return self._take_data(events)
        if len(self._input) < HEADER.size:
            return False
        version, kind, flags, stream, length = HEADER.unpack_from(self._input)
        del self._input[: HEADER.size]
        if version != _VERSION or kind not in tuple(FrameKind) or flags & ~15:
            raise self._fault(f"frame {version}/{kind}/{flags}")
        self._heed(FrameKind(kind), Flag(flags), stream, length, events)
        return True

    def _heed(
        self, kind: FrameKind, flags: Flag, stream: int, length: int, events: list[Event]
    ) -> None:
        if kind is FrameKind.PING:
            if Flag.SYN in flags:
                self._put(FrameKind.PING, Flag.ACK, 0, length)
            else:
                events.append(Pong(length))
            return
        if kind is FrameKind.GO_AWAY:
            events.append(GoneAway(length))
            return
        if Flag.SYN in flags:
            self._accept(stream, events)
        # None for a stream that has ended here: its frames may still be on the way.
        state = self._streams.get(stream)
        if kind is FrameKind.WINDOW:
            if state is not None and length:
                state.may_send += length
                events.append(WindowUpdate(stream))
            self._heed_end(stream, flags, events)
            return
        self._expect_data(state, stream, length)
        self._within = (stream, flags, length)

    def _expect_data(self, state: _Stream | None, stream: int, length: int) -> None:
        """Count the announced bytes against the window of their stream. Raises Malformed."""
        if state is not None:
            if length > state.may_come or (length and state.theirs_ended):
                raise self._fault(f"{length} bytes on stream {stream}, more than there is room for")
            state.may_come -= length
        # More than a window can never be on the way.
        elif length > WINDOW:
            raise self._fault(f"{length} bytes on a stream that is not there")

    def _take_data(self, events: list[Event]) -> bool:
        assert self._within is not None
        stream, flags, left = self._within
        part = bytes(self._input[:left])
        del self._input[: len(part)]
        if part and stream in self._streams:
            events.append(Data(stream, part))
        if len(part) < left:
            self._within = (stream, flags, left - len(part))
            return False
        self._within = None
        self._heed_end(stream, flags, events)
        return True

    def _accept(self, stream: int, events: list[Event]) -> None:
        # Wrong parity, or a number in use.
        if stream == 0 or stream % 2 == self._next % 2 or stream in self._streams:
            raise self._fault(f"stream {stream} cannot be opened")
        # Refused rather than an error: the peer may use its other streams.
        if len(self._streams) >= self._most:
            self._put(FrameKind.WINDOW, Flag.RST, stream, 0)
            return
        self._streams[stream] = _Stream()
        self._put(FrameKind.WINDOW, Flag.ACK, stream, 0)
        events.append(Opened(stream))

    def _heed_end(self, stream: int, flags: Flag, events: list[Event]) -> None:
        state = self._streams.get(stream)
        if state is None:
            return
        if Flag.RST in flags:
            del self._streams[stream]
            events.append(Reset(stream))
        elif Flag.FIN in flags and not state.theirs_ended:
            state.theirs_ended = True
            events.append(Finished(stream))
            self._forget_if_over(stream)

    def _forget_if_over(self, stream: int) -> None:
        found = self._streams[stream]
        if found.ours_ended and found.theirs_ended:
            del self._streams[stream]

    def _put(self, kind: FrameKind, flags: Flag, stream: int, length: int) -> None:
        self._output += HEADER.pack(_VERSION, kind, flags, stream, length)

    def _fault(self, message: str) -> Malformed:
        self.go_away(1)
        return Malformed(f"yamux: {message}")

"""Requests and replies between two processes of this product, as JSON messages.

A message is one JSON object. There are two framings:

    lines      one message a line: pipes, standard streams, SSH channels, TLS pipes
    packets    one message a packet of a Unix socket (SOCK_SEQPACKET), which passes file
               descriptors with it (SCM_RIGHTS)

`LineChannel` and `PacketChannel` send requests. A request has the members `op` and `id`; its
replies repeat `id` and may come in any order. A reply with `"more": true` is followed by another
part. Messages without a waiting request are passed to `stray`: events, and replies that come too
late. Messages are decoded strictly.

`LinePipe` exchanges messages in turns over a pair of pipes; `send_packet`, `receive_packet`,
`write_line` and `read_line` are the single steps, for processes without an event loop.

Both ends are of the same release: the runner that a dispatcher installs on a VM is made of its own
code, and all others are started from the same installation. Other formats are not sent by this
module: those of the daemon of an HPC container (HTTP), of the gateway of a container (HTTP, SSH,
yamux, as Arvados has them), progress lines of HPC codes, a runtime's console socket (OCI), and the
verbs of `python -m lading.supervisor` that a dispatcher of Arvados calls. The agent on a VM
(`dispatch.fleets.cloud.agent`) implements this format with the standard library of Python 3.9
alone.
"""

from __future__ import annotations

import array
import asyncio
import os
import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import msgspec

from lading.core.errors import Malformed, TooLarge, Unavailable

Message = Mapping[str, Any]
LIMIT = 4 << 20
"""Bytes of one message. The largest is a start request with the record of its container, some 100
KB.
"""

PACKET_LIMIT: Final = 1 << 20
"""Bytes of one packet: the sender's buffer in the kernel does not hold more by default."""
# Descriptors of one packet: the kernel's limit (SCM_MAX_FD).
_MOST_DESCRIPTORS: Final = 253
# Seconds in which a peer must take something of a message.
_SEND_TIMEOUT: Final = 10.0
_Kind = TypeVar("_Kind")


def encode(message: object) -> bytes:
    """Serialize a mapping, struct or dataclass. No line break is in the result."""
    return msgspec.json.encode(message)


def decode(data: bytes | bytearray, kind: type[_Kind]) -> _Kind:
    """Read one message of this type. Raises Malformed."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"The message cannot be read: {error}") from error


def read_object(data: bytes) -> dict[str, Any]:
    """Read a JSON object; an empty one for anything else."""
    try:
        return decode(data, dict[str, Any])
    except Malformed:
        return {}


def request_number(message: Message) -> int:
    """The `id` of the request that a reply belongs to; 0 without one."""
    number = message.get("id")
    return number if isinstance(number, int) else 0


def is_last(message: Message) -> bool:
    """Whether no further part of the reply follows."""
    return message.get("more") is not True


def join_parts(parts: Sequence[Message]) -> dict[str, Any]:
    """Join the parts of a reply: the last part, with the lists of all parts."""
    joined = dict(parts[-1])
    # Lists are what makes a reply too long for one packet.
    for name, value in joined.items():
        if isinstance(value, list):
            joined[name] = [
                item for reply in parts if isinstance(reply.get(name), list) for item in reply[name]
            ]
    return joined


class Packet(msgspec.Struct, frozen=True):
    """The bytes of one message and its descriptors, which belong to the receiver."""

    data: bytes
    descriptors: tuple[int, ...] = ()

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class RpcReply(msgspec.Struct, frozen=True):
    """One message from the other side and its descriptors, which belong to the receiver."""

    message: Message
    descriptors: tuple[int, ...] = ()

    @property
    def op(self) -> str:
        """Kind of the message."""
        return str(self.message.get("op"))

    def get(self, name: str) -> Any:
        """A member of the message; None without it."""
        return self.message.get(name)

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


# Packets.


def send_packet(
    connection: socket.socket, message: object, descriptors: Sequence[int] = ()
) -> None:
    """Send one message with descriptors, which the sender keeps. Raises OSError.

    `message`: an object, or the bytes of an encoded one.
    """
    rights = array.array("i", descriptors)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
    data = message if isinstance(message, bytes) else encode(message)
    connection.sendmsg([data], ancillary)


def receive_packet(
    connection: socket.socket, *, limit: int = PACKET_LIMIT, descriptors: int = 0
) -> Packet:
    """The next packet; empty when the other side has closed. `descriptors`: how many may come.

    Raises OSError, TooLarge for a packet of more than `limit` bytes or with more descriptors.
    """
    # Not `socket.recv_fds`: in Python 3.11 it ignores its flags, and the descriptors would be
    # inherited by programs that are started later.
    numbers = array.array("i")
    room = socket.CMSG_LEN(descriptors * numbers.itemsize)
    data, ancillary, flags, _ = connection.recvmsg(limit, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            # A truncated message may end within a number.
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    packet = Packet(data, tuple(numbers))
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        packet.close()
        raise TooLarge(f"A message has more than {limit} bytes or {descriptors} descriptors.")
    return packet


async def wait_packet(
    connection: socket.socket, *, limit: int = PACKET_LIMIT, descriptors: int = 0
) -> Packet:
    """Variant of `receive_packet` for a non-blocking socket in an event loop."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return receive_packet(connection, limit=limit, descriptors=descriptors)
        except (BlockingIOError, InterruptedError):
            readable = asyncio.Event()
            loop.add_reader(connection.fileno(), readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(connection.fileno())


# Lines.


def write_line(descriptor: int, message: object) -> None:
    """Write one message to a pipe. Raises BrokenPipeError."""
    write_all(descriptor, encode(message) + b"\n")


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to a pipe that blocks. Raises OSError."""
    while data:
        data = data[os.write(descriptor, data) :]


def read_line(
    descriptor: int, kind: type[_Kind], *, limit: int = LIMIT, timeout: float | None = None
) -> _Kind | None:
    """Read one message from a pipe, and nothing after it; None when the pipe ends before.

    Raises Malformed, TooLarge, TimeoutError after `timeout` seconds, OSError.
    """
    until = None if timeout is None else time.monotonic() + timeout
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    line = bytearray()
    # One byte at a time: the bytes after the line may be for another process.
    while not line.endswith(b"\n"):
        if until is not None and not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise TimeoutError(f"no message in {timeout:g} s")
        byte = os.read(descriptor, 1)
        if not byte:
            return None
        line += byte
        if len(line) > limit:
            raise TooLarge(f"A message has more than {limit} bytes.")
    return decode(line, kind)


@dataclass(slots=True)
class LinePipe:
    """Messages in turns over a pair of pipes, in an event loop; other bytes may follow them."""

    reading: int
    writing: int
    reader: asyncio.StreamReader = field(init=False)

    async def open(self) -> None:
        """Begin to read. Raises OSError."""
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(LIMIT)
        protocol = asyncio.StreamReaderProtocol(self.reader)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(self.reading, "rb", buffering=0))

    def send(self, message: object) -> None:
        """Send a message. Raises BrokenPipeError."""
        write_line(self.writing, message)

    async def receive(self, *, timeout: float | None = None) -> dict[str, Any]:
        """The next message; an empty one when the other side has closed.

        Raises TimeoutError, Malformed, TooLarge.
        """
        try:
            async with asyncio.timeout(timeout):
                line = await self.reader.readline()
        except ValueError as error:
            raise TooLarge(f"A message has more than {LIMIT} bytes.") from error
        return decode(line, dict[str, Any]) if line.endswith(b"\n") else {}


# Requests.


class Channel(ABC):
    """Requests to one process, which `peer` names in messages."""

    def __init__(self, peer: str, *, stray: Callable[[RpcReply], None]) -> None:
        self._peer = peer
        self._stray = stray
        # By the number of the request. None in a queue: the connection was closed.
        self._waiting: dict[int, asyncio.Queue[RpcReply | None]] = {}
        self._last = 0
        self._closed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether the other side is there as far as is known."""
        return not self._closed.is_set()

    async def wait_closed(self) -> None:
        """Return when the other side is gone or `close` was called."""
        await self._closed.wait()

    def close(self) -> None:
        """Have every waiting request raise Unavailable. Idempotent."""
        if self.is_open:
            self._closed.set()
            for inbox in self._waiting.values():
                inbox.put_nowait(None)

    async def request(self, op: str, *, timeout: float, **fields: object) -> RpcReply:
        """Send one request; its reply, of all parts joined, with the descriptors of all.

        Raises Unavailable when the other side is gone or does not reply within `timeout` seconds;
        its reply is then passed to `stray`, as it is when the caller is cancelled.
        """
        self._last += 1
        number = self._last
        inbox = self._waiting[number] = asyncio.Queue()
        parts: list[RpcReply] = []
        try:
            async with asyncio.timeout(timeout):
                await self._post(encode({"op": op, "id": number, **fields}))
                while not parts or not is_last(parts[-1].message):
                    reply = await inbox.get()
                    if reply is None:
                        raise self._gone()
                    parts.append(reply)
        except BaseException as error:
            # Parts that have come already go to `stray`, which closes their descriptors.
            self._abandon(number, parts)
            if isinstance(error, TimeoutError):
                raise Unavailable(
                    f"{self._peer} did not answer to {op} in {timeout:g} s."
                ) from error
            raise
        # Only now: parts of the reply must not go to `stray`.
        del self._waiting[number]
        return RpcReply(
            join_parts([reply.message for reply in parts]),
            tuple(descriptor for reply in parts for descriptor in reply.descriptors),
        )

    @abstractmethod
    async def _send(self, data: bytes) -> None:
        """Send one message. Raises Unavailable, OSError."""

    async def _post(self, data: bytes) -> None:
        if not self.is_open:
            raise self._gone()
        try:
            # A peer that reads nothing for this long counts as gone: behind its full buffer the
            # caller would wait for ever.
            async with asyncio.timeout(_SEND_TIMEOUT):
                await self._send(data)
        except OSError as error:
            why = str(error) or f"nothing was taken in {_SEND_TIMEOUT:g} s"
            raise Unavailable(f"{self._peer} cannot be reached: {why}") from error

    def _take(self, reply: RpcReply) -> None:
        """Pass a message to the request that waits for it, or to `stray`."""
        inbox = self._waiting.get(request_number(reply.message))
        if inbox is None:
            self._stray(reply)
        else:
            inbox.put_nowait(reply)

    def _abandon(self, number: int, parts: list[RpcReply]) -> None:
        inbox = self._waiting.pop(number)
        while not inbox.empty():
            reply = inbox.get_nowait()
            if reply is not None:
                parts.append(reply)
        for reply in parts:
            self._stray(reply)

    def _gone(self) -> Unavailable:
        return Unavailable(f"{self._peer} is gone; the connection is being made again.")


class PacketChannel(Channel):
    """Requests over a Unix socket of type SOCK_SEQPACKET, whose replies may have descriptors."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        peer: str,
        stray: Callable[[RpcReply], None],
        descriptors: int = _MOST_DESCRIPTORS,
    ) -> None:
        super().__init__(peer, stray=stray)
        self.descriptors = descriptors
        """Most descriptors of one packet; a packet with more ends the connection."""
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)

    def close(self) -> None:
        """Close the socket; every waiting request raises Unavailable. Idempotent."""
        if self.is_open:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
        super().close()

    async def _send(self, data: bytes) -> None:
        try:
            await self._loop.sock_sendall(self._sock, data)
        except OSError:
            self.close()
            raise

    def _readable(self) -> None:
        try:
            packet = receive_packet(self._sock, descriptors=self.descriptors)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, TooLarge):
            packet = Packet(b"")
        if not packet.data:
            self.close()
            return
        self._take(RpcReply(read_object(packet.data), packet.descriptors))


class LineWriter(Protocol):
    """The two methods of a stream writer that `LineChannel` uses."""

    def write(self, data: bytes) -> None:
        """Buffer bytes for sending."""

    async def drain(self) -> None:
        """Wait until the buffer has room."""


class LineChannel(Channel):
    """Requests over a stream of lines. `serve` reads until the other side is gone.

    `faults`: errors of the streams besides OSError that mean that the connection is lost.
    """

    def __init__(
        self,
        lines: AsyncIterable[bytes],
        writer: LineWriter,
        *,
        peer: str,
        stray: Callable[[RpcReply], None],
        faults: tuple[type[Exception], ...] = (),
    ) -> None:
        super().__init__(peer, stray=stray)
        self._lines = lines
        self._writer = writer
        self._faults: tuple[type[Exception], ...] = (OSError, *faults)

    async def serve(self) -> None:
        """Read until the other side is gone; then every waiting request raises Unavailable."""
        try:
            async for line in self._lines:
                # A line that cannot be read is skipped: it belongs to no known request, which then
                # ends by its time-out.
                message = read_object(line) if len(line) <= LIMIT else {}
                if message:
                    self._take(RpcReply(message))
        except self._faults:
            return
        finally:
            self.close()

    async def _send(self, data: bytes) -> None:
        try:
            self._writer.write(data + b"\n")
            await self._writer.drain()
        except self._faults as error:
            raise ConnectionError(str(error)) from error

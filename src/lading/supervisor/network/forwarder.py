"""Connections and name resolution that the supervisor makes for a container.

`Forwarder` makes TCP connections to a service for a container without access to it. The bytes are
not changed: TLS is between the container and the service, whose certificate the container verifies
by the service's own name.

`Resolver` forwards DNS queries from the container's loopback interface to the resolvers of the
machine. The machine's own may have a loopback address (127.0.0.53 of systemd-resolved), which the
container cannot reach. Messages are not changed; TCP serves answers that are too long for UDP.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

from lading.core.containers.container_network import Endpoint, nameservers
from lading.process.concurrency import cancel_all

MOST_CONNECTIONS = 1024
"""Maximum at a time, for one service of one container: a workflow runner has some ten."""
# Seconds.
_CONNECT_TIME = 30.0
# Bytes read at a time.
_CHUNK = 1 << 18
# Seconds without accepting when no descriptors are free.
_REST = 0.1


class Forwarder:
    """Accepts connections at a listening socket in the container's namespace.

    At most `most` connections at a time; none is accepted for `rest` seconds after the process had
    no free descriptor.
    """

    def __init__(
        self,
        target: Endpoint,
        listening: socket.socket,
        *,
        most: int = MOST_CONNECTIONS,
        pause: float = _REST,
    ) -> None:
        self._most, self._pause = most, pause
        self._target, self._listening = target, listening
        self._listening.setblocking(False)
        self._tasks: set[asyncio.Task[None]] = set()
        self._fresh: set[socket.socket] = set()
        """Accepted connections that no task handles yet."""
        self._resting: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start accepting."""
        # asyncio's server would leave the connections that it has accepted before it is closed
        # without an owner.
        self._listen()

    async def close(self) -> None:
        """End all connections. Idempotent."""
        if self._resting is not None:
            self._resting.cancel()
        if self._listening.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listening)
        ending = list(self._tasks)
        await cancel_all(*ending)
        for connection in (*self._fresh, self._listening):
            connection.close()
        self._fresh.clear()

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, _ = self._listening.accept()
        except BlockingIOError:
            # The client has gone already.
            return
        except OSError:
            # No descriptors are left, perhaps for a moment only.
            loop.remove_reader(self._listening)
            self._resting = loop.call_later(self._pause, self._listen)
            return
        if len(self._tasks) >= self._most:
            connection.close()
            return
        self._fresh.add(connection)
        task = asyncio.create_task(self._take(connection), name="forwarder")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, connection: socket.socket) -> None:
        self._fresh.discard(connection)
        # The container or the service has closed the connection.
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection(sock=connection, limit=_CHUNK)
            try:
                await self._join(reader, writer)
            finally:
                writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_CONNECT_TIME):
            their_reader, their_writer = await asyncio.open_connection(
                self._target.host, self._target.port, limit=_CHUNK
            )
        # Calls of an API are small messages that wait for each other.
        for stream in (writer, their_writer):
            stream.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        forth = asyncio.create_task(_pour(reader, their_writer))
        back = asyncio.create_task(_pour(their_reader, writer))
        try:
            await asyncio.gather(forth, back)
        finally:
            await cancel_all(forth, back)
            their_writer.close()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy data, then its end. Raises OSError."""
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


CONFIGURATION = Path("/etc/resolv.conf")
# DNS.
PORT = 53
MOST_QUESTIONS = 256
"""Pending queries at a time; further ones are dropped, and repeated by the client."""
# Seconds for one resolver; glibc waits as long (resolv.conf(5)).
_ANSWER_TIME = 5.0
# Bytes of a DNS message; its length field over TCP has 16 bits (RFC 1035, 4.2.2).
_MOST_BYTES = 1 << 16
_Address = tuple[str, int]


class Resolver:
    """Answers at a UDP and at a TCP socket of the container's namespace.

    `find` returns the machine's resolvers; it is called for each query, as they may change. Each
    has `answer_time` seconds. More than `most` queries at a time are dropped.
    """

    def __init__(
        self,
        datagrams: socket.socket,
        listening: socket.socket,
        *,
        find: Callable[[], tuple[_Address, ...]] = lambda: machine_resolvers(),
        answer_time: float = _ANSWER_TIME,
        most: int = MOST_QUESTIONS,
    ) -> None:
        self._datagrams, self._listening, self._find = datagrams, listening, find
        self._answer_time, self._most = answer_time, most
        self._transport: asyncio.DatagramTransport | None = None
        self._forwarder: Forwarder | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start answering. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Questions(self._ask), sock=self._datagrams
        )
        host, port = self._find()[0]
        self._forwarder = Forwarder(Endpoint(host, port), self._listening)
        await self._forwarder.start()

    async def close(self) -> None:
        """Stop answering. Idempotent."""
        await cancel_all(*self._tasks)
        if self._transport is not None:
            self._transport.close()
        self._datagrams.close()
        if self._forwarder is not None:
            await self._forwarder.close()
        self._listening.close()

    def _ask(self, question: bytes, asker: _Address) -> None:
        if len(self._tasks) < self._most:
            task = asyncio.create_task(self._pass_on(question, asker), name="resolver")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, question: bytes, asker: _Address) -> None:
        for address in self._find():
            # This resolver does not answer: try the next one.
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(self._answer_time):
                    answer = await _exchange(question, address)
                if self._transport is not None:
                    self._transport.sendto(answer, asker)
                return


async def _exchange(question: bytes, address: _Address) -> bytes:
    """The answer of a resolver. Raises OSError."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asking:
        await loop.sock_connect(asking, address)
        await loop.sock_sendall(asking, question)
        return await loop.sock_recv(asking, _MOST_BYTES)


class _Questions(asyncio.DatagramProtocol):
    def __init__(self, ask: Callable[[bytes, _Address], None]) -> None:
        self._ask = ask

    def datagram_received(self, data: bytes, addr: _Address) -> None:
        """A query."""
        self._ask(data, addr)


def machine_resolvers(file: Path = CONFIGURATION) -> tuple[_Address, ...]:
    """Addresses of the resolvers of this machine; none when the file cannot be read."""
    try:
        text = file.read_text(errors="replace")
    except OSError:
        text = ""
    return tuple((address, PORT) for address in nameservers(text))

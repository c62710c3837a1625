"""A resolver for a container: DNS queries from its loopback interface go to the resolvers of the
machine.

The machine's own may have a loopback address (127.0.0.53 of systemd-resolved), which the container
cannot reach. Messages are not changed; TCP serves answers that are too long for UDP.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

from lading.core.containers.container_network import Endpoint, nameservers
from lading.supervisor.network.forwarder import Forwarder

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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
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

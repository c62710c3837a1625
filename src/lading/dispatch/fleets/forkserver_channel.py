"""Requests and answers over a socketpair of type SOCK_SEQPACKET, with descriptors (see
`supervisor.process.forkserver`).

One message is one JSON object. A request carries an `id`, its answers repeat it and may come in any
order; an answer with `"more": true` is followed by another one. Descriptors travel with the answer
that names them; those that nobody takes are closed.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from lading.core.errors import Unavailable

_MESSAGE_LIMIT = 1 << 20
_DESCRIPTOR_LIMIT = 253
_SEND_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One message from the other side. Whoever gets it owns the descriptors."""

    message: Mapping[str, object]
    descriptors: Sequence[int] = ()

    @property
    def op(self) -> str:
        """What it is."""
        return str(self.message.get("op"))

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class Channel:
    """One end of the socketpair. `stray` gets the answers that nobody waits for any more."""

    def __init__(self, sock: socket.socket, *, stray: Callable[[Answer], None]) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._stray = stray
        self._waiting: dict[int, asyncio.Queue[Answer | None]] = {}
        self._last = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)
        self._open = True
        self._closed = asyncio.Event()

    async def wait_closed(self) -> None:
        """Return when the other side is gone or `close` was called."""
        await self._closed.wait()

    def close(self) -> None:
        """Drop the connection; every waiting request raises Unavailable. Idempotent."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
            for queue in self._waiting.values():
                queue.put_nowait(None)
            self._closed.set()

    async def request(self, op: str, *, timeout: float, **fields: object) -> Answer:
        """Send one request and wait for its last answer, with the descriptors of all.

        Several answers are put together: their lists are joined. Raises Unavailable when the other
        side is gone or does not answer within `timeout` seconds; its answer is then a stray one.
        """
        self._last += 1
        number = self._last
        inbox = self._waiting[number] = asyncio.Queue()
        parts: list[Answer] = []
        try:
            async with asyncio.timeout(timeout):
                await self._send(msgspec.json.encode({"op": op, "id": number, **fields}))
                while not parts or parts[-1].message.get("more") is True:
                    answer = await inbox.get()
                    if answer is None:
                        raise Unavailable(
                            "The warm parent of the supervisors is gone; it is being started again."
                        )
                    parts.append(answer)
        except BaseException as error:
            self._abandon(number, parts)
            if isinstance(error, TimeoutError):
                raise Unavailable(
                    f"The warm parent of the supervisors did not answer to {op} in {timeout:g} s."
                ) from error
            raise
        del self._waiting[number]
        return _joined(parts)

    def _abandon(self, number: int, parts: list[Answer]) -> None:
        inbox = self._waiting.pop(number)
        while not inbox.empty():
            answer = inbox.get_nowait()
            if answer is not None:
                parts.append(answer)
        for part in parts:
            self._stray(part)

    async def _send(self, data: bytes) -> None:
        if not self._open:
            raise Unavailable(
                "The warm parent of the supervisors is gone; it is being started again."
            )
        try:
            async with asyncio.timeout(_SEND_TIMEOUT):
                await self._loop.sock_sendall(self._sock, data)
        except OSError as error:
            self.close()
            raise Unavailable(
                f"The warm parent of the supervisors cannot be reached: {error}"
            ) from error

    def _readable(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._sock, _MESSAGE_LIMIT, _DESCRIPTOR_LIMIT, socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self.close()
            return
        self._dispatch(data, descriptors)

    def _dispatch(self, data: bytes, descriptors: list[int]) -> None:
        try:
            message = msgspec.json.decode(data)
        except msgspec.DecodeError:
            message = None
        answer = Answer(message if isinstance(message, dict) else {}, tuple(descriptors))
        inbox = self._waiting.get(_number(answer))
        if inbox is None:
            self._stray(answer)
        else:
            inbox.put_nowait(answer)


def _number(answer: Answer) -> int:
    number = answer.message.get("id")
    return number if isinstance(number, int) else 0


def _joined(parts: list[Answer]) -> Answer:
    message: dict[str, object] = dict(parts[-1].message)
    for name, value in message.items():
        if isinstance(value, list):
            message[name] = [item for part in parts for item in _items(part.message.get(name))]
    return Answer(message, tuple(descriptor for part in parts for descriptor in part.descriptors))


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []

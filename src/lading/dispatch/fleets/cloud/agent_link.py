"""Requests and answers over the standard streams of the agent on a VM: JSON, a line a message.

A request carries an `id`, its answers repeat it and may come in any order; an answer with `"more":
true` is followed by another one. What nobody asked for, or waits for any more, goes to `stray`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any, Protocol

import asyncssh
import msgspec

from lading.core.errors import Unavailable

Message = Mapping[str, Any]


class Writer(Protocol):
    """Where lines are written."""

    def write(self, data: bytes) -> None:
        """Have this sent."""

    async def drain(self) -> None:
        """Wait until there is room for more."""


class Link:
    """One agent. `serve` reads until the other side is gone."""

    def __init__(
        self, lines: AsyncIterable[bytes], writer: Writer, *, stray: Callable[[Message], None]
    ) -> None:
        self._lines = lines
        self._writer = writer
        self._stray = stray
        self._waiting: dict[int, asyncio.Queue[Message | None]] = {}
        self._last = 0
        self._open = True

    @property
    def open(self) -> bool:
        """Whether the other side is there as far as is known."""
        return self._open

    async def serve(self) -> None:
        """Read until the other side is gone; then every request that waits raises Unavailable."""
        try:
            async for line in self._lines:
                self._take(line)
        except (OSError, asyncssh.Error):
            return
        finally:
            self._open = False
            for inbox in self._waiting.values():
                inbox.put_nowait(None)

    async def request(self, op: str, *, timeout: float, **fields: object) -> Message:
        """Send one request and wait for its last answer; lists of several answers are joined.
        Raises Unavailable.
        """
        self._last += 1
        number, inbox = self._last, asyncio.Queue[Message | None]()
        self._waiting[number] = inbox
        joined: dict[str, Any] = {}
        try:
            async with asyncio.timeout(timeout):
                await self._send({"op": op, "id": number, **fields})
                while not joined or joined.get("more") is True:
                    answer = await inbox.get()
                    if answer is None:
                        raise Unavailable(
                            "The connection to the instance was lost; it is being made again."
                        )
                    joined = _joined(joined, answer)
        except TimeoutError as error:
            raise Unavailable(f"The instance did not answer to {op} in {timeout:g} s.") from error
        finally:
            del self._waiting[number]
        return joined

    async def _send(self, message: Message) -> None:
        if not self._open:
            raise Unavailable("There is no connection to the instance; it is being made.")
        try:
            self._writer.write(msgspec.json.encode(message) + b"\n")
            await self._writer.drain()
        except (OSError, asyncssh.Error) as error:
            raise Unavailable(f"The instance cannot be reached: {error}") from error

    def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            return
        inbox = self._waiting.get(message.get("id") or 0)
        if inbox is None:
            self._stray(message)
        else:
            inbox.put_nowait(message)


def _joined(first: Message, second: Message) -> dict[str, Any]:
    return {
        name: [*first.get(name, []), *value] if isinstance(value, list) else value
        for name, value in second.items()
    }

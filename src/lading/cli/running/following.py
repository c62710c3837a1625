"""Following of a request to its end: its growing log, its retries, its outcome.

Changes arrive over the websocket and are looked up at once. Without a websocket, and for the log,
the server is polled: every 50 ms at first, less often while nothing happens, at least once a
second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from lading.cli.display import write_all
from lading.cli.running.log_output import LogFile
from lading.client.api import ApiClient, Record, events
from lading.client.outcomes import RequestOutcome, reason
from lading.core.errors import LadingError

# Seconds between polls: the first, the longest, and the factor between them.
_SHORTEST, _LONGEST, _GROWTH = 0.05, 1.0, 1.4
_WAITING = ("Queued", "Locked")
# Seconds of waiting before the reason is shown.
_PATIENCE = 1.0


class Sink(Protocol):
    """Receiver of the bytes of one log file."""

    def write(self, data: bytes, /) -> object:
        """Write all of the bytes."""
        ...

    def flush(self) -> None:
        """Show what is buffered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """The output of a follower: the streams of the command, and a function for messages to the
    user.
    """

    stdout: BinaryIO
    stderr: BinaryIO
    say: Callable[[str], None]
    further: Mapping[str, Sink] = field(default_factory=dict)
    """Receivers of further files of the log, by name."""


class Follower:
    """Follows one request. A signal handler may call `cancel` meanwhile. The user is told after
    `patience` seconds why the request waits.
    """

    def __init__(
        self, api: ApiClient, request: Record, watcher: Watcher, *, patience: float = _PATIENCE
    ) -> None:
        self._patience = patience
        self._api = api
        self._request = request
        self._watcher = watcher
        self._container: Record | None = None
        self._logs: tuple[LogFile, ...] = ()
        self._changed = asyncio.Event()
        self._cancelling = False
        self._status = ""
        self._waiting_since = asyncio.get_running_loop().time()

    def cancel(self) -> None:
        """Cancel the request at the next opportunity."""
        self._cancelling = True
        self._changed.set()

    async def follow(self) -> RequestOutcome:
        """Show the log until the request is final; return its outcome. Raises the errors of the
        API.
        """
        async with self._listening():
            pause, asked = _SHORTEST, False
            while True:
                # Once: the request is cancelled when the server says so.
                if self._cancelling and not asked:
                    asked = True
                    self._request = await self._api.action(
                        "container_requests", self._request["uuid"], "cancel"
                    )
                # Records first, then the log: the log that is read last then includes the last
                # lines.
                is_news = await self._look()
                is_news = await self._show() or is_news
                if self._is_over(asked):
                    return RequestOutcome(self._request, self._container)
                pause = _SHORTEST if is_news else min(_LONGEST, pause * _GROWTH)
                await self._wait(pause)

    def _is_over(self, is_cancelled: bool) -> bool:
        waiting = self._container is None or self._container["state"] == "Queued"
        return self._request["state"] == "Final" or (
            is_cancelled and waiting and not self._request["priority"]
        )

    async def _look(self) -> bool:
        """Read both records again; return whether something changed."""
        before = (self._request, self._container)
        self._request = await self._api.get("container_requests", self._request["uuid"])
        uuid = self._request["container_uuid"]
        if uuid is None:
            return self._request != before[0]
        # The request got another container: the first one failed. Show the rest of its log.
        if before[1] is not None and before[1]["uuid"] != uuid:
            await self._finish_attempt(before[1])
        self._container = await self._api.get("containers", uuid)
        if before[1] is None or before[1]["uuid"] != uuid:
            self._logs = tuple(
                LogFile(self._api, self._request["uuid"], uuid, name)
                for name in ("stdout.txt", "stderr.txt", *self._watcher.further)
            )
        await self._say_why_waiting()
        return (self._request, self._container) != before

    async def _finish_attempt(self, container: Record) -> None:
        await self._show()
        last = await self._api.get("containers", container["uuid"])
        self._watcher.say(f"{container['uuid']} failed: {reason(last)}; trying again")

    async def _say_why_waiting(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._container is None or self._container["state"] not in _WAITING:
            self._waiting_since = now
        # A start within the usual time needs no message.
        if now - self._waiting_since < self._patience:
            return
        answer = await self._api.action(
            "container_requests", self._request["uuid"], "container_status", method="GET"
        )
        status = str(answer.get("scheduling_status") or "")
        if status and status != self._status:
            self._watcher.say(status)
        self._status = status

    async def _show(self) -> bool:
        is_news = False
        for log, out in zip(self._logs, (self._watcher.stdout, self._watcher.stderr), strict=False):
            async with aclosing(log.read()) as pieces:
                async for piece in pieces:
                    is_news = True
                    write_all(out, piece)
        for log, sink in zip(self._logs[2:], self._watcher.further.values(), strict=False):
            async with aclosing(log.read()) as pieces:
                async for piece in pieces:
                    is_news = True
                    sink.write(piece)
                    sink.flush()
        return is_news

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return
        self._changed.clear()

    @asynccontextmanager
    async def _listening(self) -> AsyncGenerator[None]:
        listener = asyncio.create_task(self._listen(), name="events")
        try:
            yield
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            async with aclosing(events(self._api)) as heard:
                async for event in heard:
                    uuid = getattr(event, "object_uuid", None)
                    if uuid is None or uuid in (
                        self._request["uuid"],
                        self._request["container_uuid"],
                    ):
                        self._changed.set()
        except LadingError:
            # The server has no websocket: the polls are enough.
            return

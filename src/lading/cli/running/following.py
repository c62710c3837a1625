"""Follows a request to its end: its growing log in the chosen form, its retries, its outcome.

Changes arrive over the websocket and are fetched at once. Without a websocket, and for the log, the
server is polled: every 50 ms at first, less often while nothing happens, at least once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import BinaryIO, Protocol
from urllib.parse import quote

import msgspec

from lading.cli.display import write_all
from lading.cli.hangup import full_stream, is_broken_pipe
from lading.cli.running.log_lines import Unstamper
from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome, reason
from lading.client.record_events import events
from lading.client.retry import Outage
from lading.core.containers.attempts.spot import about
from lading.core.errors import LadingError, NotFound, RequestError, Unavailable
from lading.process.concurrency import wait_at_most

# 416 Range Not Satisfiable: there are no further bytes.
_NOTHING_MORE = 416
# 206 Partial Content: the bytes from the offset on; 200 would be the whole file.
_PARTIAL = 206
# Seconds between polls: the first, the longest, and the factor between them.
_SHORTEST, _LONGEST_PAUSE, _GROWTH = 0.05, 1.0, 1.4
_WAITING = ("Queued", "Locked")
_NO_DISPATCHER = "no dispatcher"
# Seconds of waiting before the reason is shown.
_PATIENCE = 1.0


class LogFile:
    """One log file of one container of a request."""

    def __init__(
        self,
        api: ApiClient,
        request_uuid: str,
        container_uuid: str,
        name: str,
        *,
        is_raw: bool = False,
    ) -> None:
        self._api = api
        self._path = f"container_requests/{request_uuid}/log/{container_uuid}/{quote(name)}"
        self._unstamper = None if is_raw else Unstamper()
        self._offset = 0
        self.is_missing = False
        """Whether the file did not exist when it was last read."""

    async def read(self) -> AsyncGenerator[bytes]:
        """The bytes written since the last call, in pieces; nothing if the file does not exist
        (yet).

        After an interrupted response, the rest is requested. Raises Unavailable if the response to
        that has no further byte either, and the errors of the API.
        """
        while True:
            begun = self._offset
            try:
                async with aclosing(self._new()) as pieces:
                    async for piece in pieces:
                        yield self._unstamper.feed(piece) if self._unstamper else piece
            except NotFound:
                self.is_missing = True
                return
            except Unavailable:
                # Without progress a repetition would be endless.
                if self._offset == begun:
                    raise
                continue
            except RequestError as error:
                if error.status == _NOTHING_MORE:
                    return
                raise
            if self._offset == begun:
                return

    async def _new(self) -> AsyncGenerator[bytes]:
        """The bytes of one response beyond the bytes that were read."""
        async with self._api.stream(
            self._path, headers={"Range": f"bytes={self._offset}-"}
        ) as answer:
            self.is_missing = False
            # A server without ranges sends the whole file each time.
            known = 0 if answer.status == _PARTIAL else self._offset
            async for chunk in answer.chunks:
                piece, known = chunk[known:], max(0, known - len(chunk))
                if piece:
                    self._offset += len(piece)
                    yield piece


class Sink(Protocol):
    """Receiver of the bytes of one log file."""

    def write(self, data: bytes, /) -> object:
        """Write all of the bytes."""
        ...

    def flush(self) -> None:
        """Show the buffered bytes."""
        ...


class Watcher(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a follower: the streams of the command, and a function for messages to the
    user.
    """

    stdout: BinaryIO
    stderr: BinaryIO
    say: Callable[[str], None]
    further: Mapping[str, Sink] = msgspec.field(default_factory=dict)
    """Receivers of further files of the log, by name."""


class Follower:
    """Follows one request. A signal handler may call `cancel` meanwhile. After `patience` seconds
    the user gets the reason why the request waits. A server that is started again meanwhile is
    waited for, as long as `outage` allows.
    """

    def __init__(
        self,
        api: ApiClient,
        request: Record,
        watcher: Watcher,
        *,
        patience: float = _PATIENCE,
        outage: Outage | None = None,
    ) -> None:
        self._outage = outage or Outage()
        self._patience = patience
        self._api = api
        self._request = request
        self._watcher = watcher
        self._container: Record | None = None
        self._logs: tuple[LogFile, ...] = ()
        self._changed = asyncio.Event()
        self._cancelling = self._is_cancelled = False
        self._status = ""
        # The step that prepares the container and takes long, and since when.
        self._activity, self._activity_since = "", 0.0
        # Said last; it may stay in the record after its end.
        self._last_activity = ""
        self._waiting_since = asyncio.get_running_loop().time()

    def cancel(self) -> None:
        """Cancel the request at the next opportunity."""
        self._cancelling = True
        self._changed.set()

    async def follow(self) -> RequestOutcome:
        """Show the log until the request is final; return its outcome. Raises the errors of the
        API, and OSError when nobody reads the output any more or its disk is full: the request
        goes on.
        """
        try:
            return await self._follow()
        except OSError as error:
            stream = full_stream(error)
            if self._request["state"] != "Final" and (stream or is_broken_pipe(error)):
                unread = "nobody reads the output any more"
                fault = f"the disk of {stream} is full" if stream else unread
                self._watcher.say(f"{fault}; {self._request['uuid']} goes on")
            raise

    async def _follow(self) -> RequestOutcome:
        # A request that has ended already is shown without listening for changes.
        if await self._step() is not None and self._is_over(self._is_cancelled):
            return RequestOutcome(self._request, self._container)
        async with self._listening():
            pause = _SHORTEST
            while True:
                is_news = await self._step()
                if is_news is not None and self._is_over(self._is_cancelled):
                    return RequestOutcome(self._request, self._container)
                pause = _SHORTEST if is_news else min(_LONGEST_PAUSE, pause * _GROWTH)
                await self._wait(pause)

    async def _step(self) -> bool | None:
        """Whether there is something new; None where the server does not answer. Raises the errors
        of the API, and Unavailable after a long outage.
        """
        try:
            # Once: the request is cancelled when the server confirms it.
            if self._cancelling and not self._is_cancelled:
                self._request = await self._api.action(
                    "container_requests", self._request["uuid"], "cancel"
                )
                self._is_cancelled = True
            # Records first, then the log: the log that is read last then includes the last lines.
            is_news = await self._look()
            is_news = await self._show() or is_news
        except LadingError as error:
            if self._outage.bear(error):
                self._watcher.say(f"{error.message}; waiting for the server, the request goes on")
            return None
        if self._outage.end():
            self._watcher.say("the server answers again")
        return is_news

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
        self._say_activity()
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
            await self._say_that_nobody_runs_it()
        self._status = status

    def _say_activity(self) -> None:
        """Say which step takes long before the command starts, and how long it took; of a running
        container, that its command failed and that it is kept.
        """
        container, now = self._container or {}, asyncio.get_running_loop().time()
        activity = str((container.get("runtime_status") or {}).get("activity") or "")
        state = container.get("state")
        if state == "Running" and activity not in ("", self._last_activity):
            self._watcher.say(activity)
            self._last_activity = activity
        step = activity if state == "Locked" else ""
        if step == self._activity:
            return
        if self._activity:
            self._watcher.say(f"{self._activity} took {about(now - self._activity_since)}")
        if step:
            self._watcher.say(f"{step}...")
            self._last_activity = step
        self._activity, self._activity_since = step, now

    async def _say_that_nobody_runs_it(self) -> None:
        """Say it where no machine runs containers: the request would wait for ever."""
        why = await self._api.action(
            "container_requests", self._request["uuid"], "why", method="GET"
        )
        for wait in why.get("waits") or ():
            if wait["reason"] == _NO_DISPATCHER:
                self._watcher.say(
                    f"{wait['sentence']} 'lading doctor' tells on a machine what it lacks to run "
                    "them."
                )

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
        await wait_at_most(self._changed, seconds)
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

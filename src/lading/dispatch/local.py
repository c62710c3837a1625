"""The fleet of this machine: supervisors forked from a warm parent, watched by pidfd.

The warm parent is a child process that has everything imported (`supervisor.zygote` describes how to talk to it). It
is started again whenever it ends; supervisors live in sessions of their own and survive it, and this dispatcher.

- A supervisor's pidfd becomes readable the moment it ends: no polling, and no confusion by reused process ids.
- After every start of the warm parent its list of run directories is read: live supervisors that are not known yet
  (started by an earlier dispatcher, or just before the warm parent died) are adopted, dead ones are shown as exited.
- While there is no warm parent, the worker is not in the view, so that nothing is locked in vain.
- A supervisor removes its run directory as its last act. Where there is none, `clean` has nothing to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from lading.core.errors import Conflict, ExecutionError, Failure, Unavailable
from lading.core.jsonvalue import JsonObject
from lading.core.sizing import Resources
from lading.dispatch.channel import Answer, Channel
from lading.dispatch.fleet import Assignment, FleetView, Process, WorkerView
from lading.telemetry import event

WORKER = "this machine"
_logger = logging.getLogger("lading.dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """How this machine runs supervisors.

    `command` starts the warm parent; `--fd N --run DIRECTORY` is appended. `template` holds the fields of every
    assignment but `container_uuid`, `supervisor_token` and `run_directory`. Times are seconds.
    """

    command: Sequence[str]
    run_directory: Path
    template: Mapping[str, object]
    capacity: Resources
    ready_timeout: float = 60.0
    start_timeout: float = 30.0
    clean_timeout: float = 120.0
    stop_timeout: float = 5.0
    restart_first: float = 0.05
    restart_longest: float = 5.0


class LocalFleet:
    """Implements `Fleet`. Use as `async with`: leaving it ends the warm parent and leaves the supervisors running."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._worker = WorkerView(WORKER, settings.capacity)
        self._processes: dict[str, Process] = {}
        self._pidfds: dict[str, int] = {}
        self._known = False
        self._channel: Channel | None = None
        self._change = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._keeper = asyncio.create_task(self._keep(), name="warm parent")
        self._keeper.add_done_callback(lambda _: self._change.set())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        for uuid in list(self._pidfds):
            self._unwatch(uuid)

    def view(self) -> FleetView:
        """What is known now."""
        workers = (self._worker,) if self._channel is not None else ()
        return FleetView(known=self._known, workers=workers, processes=dict(self._processes))

    async def changed(self) -> None:
        """Wait until the view may have changed. Raises what ended the keeping of the warm parent."""
        await self._change.wait()
        self._change.clear()
        if self._keeper is not None and self._keeper.done():
            self._keeper.result()

    async def start(self, assignment: Assignment) -> None:
        """Fork a supervisor. Raises Conflict, Unavailable, ExecutionError."""
        uuid = assignment.uuid
        if uuid in self._processes:
            raise Conflict(f"{uuid}: an earlier supervisor is still there")
        answer = await self._connected().request(
            "start", timeout=self._settings.start_timeout, assignment=self._message(assignment)
        )
        if answer.op != "started":
            answer.close()
            fault = str(answer.message.get("error") or "the warm parent refused")
            raise ExecutionError(f"No supervisor could be started: {fault}", Failure.NODE)
        self._adopt([uuid], answer.descriptors)

    async def signal(self, uuid: str, number: signal.Signals) -> None:
        """Send a signal to a living supervisor."""
        descriptor = self._pidfds.get(uuid)
        if descriptor is not None:
            try:
                signal.pidfd_send_signal(descriptor, number)
            except ProcessLookupError:
                self._ended(uuid)

    async def clean(self, uuid: str) -> None:
        """Clear away what a dead supervisor left. Raises Conflict, Unavailable."""
        if uuid in self._pidfds:
            raise Conflict(f"{uuid}: its supervisor is alive")
        if await asyncio.to_thread((self._settings.run_directory / uuid).exists):
            answer = await self._connected().request("clean", timeout=self._settings.clean_timeout, uuid=uuid)
            answer.close()
            if answer.op != "cleaned" or answer.message.get("error"):
                raise Unavailable(f"{uuid} could not be cleared away: {answer.message.get('error')}")
        self._processes.pop(uuid, None)
        self._change.set()

    def _message(self, assignment: Assignment) -> JsonObject:
        fields: JsonObject = dict(self._settings.template)  # type: ignore[arg-type]
        return fields | {
            "container_uuid": assignment.uuid,
            "supervisor_token": assignment.token,
            "run_directory": str(self._settings.run_directory / assignment.uuid),
        }

    def _connected(self) -> Channel:
        if self._channel is None:
            raise Unavailable("The warm parent of the supervisors is not there; it is being started.")
        return self._channel

    async def _keep(self) -> None:
        loop, pause = asyncio.get_running_loop(), self._settings.restart_first
        while True:
            began = loop.time()
            try:
                await self._serve()
            except (Unavailable, OSError) as error:
                event(_logger, "warm parent failed", why=error)
            if loop.time() - began > self._settings.restart_longest:
                pause = self._settings.restart_first
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._settings.restart_longest)

    async def _serve(self) -> None:
        """Run one warm parent until it ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                process = await self._spawn(theirs.fileno())
            channel = Channel(ours, stray=self._take_stray)
            try:
                await self._survey(channel)
                event(_logger, "warm parent ready", pid=process.pid, processes=len(self._processes))
                await channel.wait_closed()
            finally:
                self._channel = None
                self._change.set()
                channel.close()
                code = await self._stop(process)
                event(_logger, "warm parent ended", pid=process.pid, code=code)

    async def _spawn(self, descriptor: int) -> asyncio.subprocess.Process:
        arguments = ("--fd", str(descriptor), "--run", str(self._settings.run_directory))
        spawning = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self._settings.command, *arguments, stdin=asyncio.subprocess.DEVNULL, pass_fds=(descriptor,)
            )
        )
        try:
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:
            await _kill(await spawning)
            raise

    async def _stop(self, process: asyncio.subprocess.Process) -> int:
        try:
            async with asyncio.timeout(self._settings.stop_timeout):
                return await process.wait()
        except TimeoutError:
            return await _kill(process)
        except asyncio.CancelledError:
            await _kill(process)
            raise

    async def _survey(self, channel: Channel) -> None:
        answer = await channel.request("list", timeout=self._settings.ready_timeout)
        if answer.op != "listed":
            answer.close()
            raise Unavailable(f"The warm parent did not list its processes: {answer.message.get('error')}")
        self._adopt(_uuids(answer.message.get("live")), answer.descriptors)
        for uuid in _uuids(answer.message.get("dead")):
            self._processes.setdefault(uuid, Process(WORKER, alive=False))
        self._known = True
        self._channel = channel
        self._change.set()

    def _take_stray(self, answer: Answer) -> None:
        if answer.op == "started" and len(answer.descriptors) == 1:
            self._adopt(_uuids([answer.message]), answer.descriptors)
        else:
            answer.close()

    def _adopt(self, uuids: Sequence[str], descriptors: Sequence[int]) -> None:
        if len(uuids) != len(descriptors):
            for descriptor in descriptors:
                os.close(descriptor)
            raise Unavailable(f"The warm parent sent {len(descriptors)} descriptors for {len(uuids)} processes.")
        loop = asyncio.get_running_loop()
        for uuid, descriptor in zip(uuids, descriptors, strict=True):
            if uuid in self._pidfds:
                os.close(descriptor)
                continue
            self._pidfds[uuid] = descriptor
            self._processes[uuid] = Process(WORKER)
            loop.add_reader(descriptor, self._ended, uuid)
        self._change.set()

    def _ended(self, uuid: str) -> None:
        self._unwatch(uuid)
        self._processes[uuid] = Process(WORKER, alive=False)
        self._change.set()

    def _unwatch(self, uuid: str) -> None:
        descriptor = self._pidfds.pop(uuid)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def _kill(process: asyncio.subprocess.Process) -> int:
    # It may have ended by itself a moment ago.
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    return await process.wait()


def _uuids(items: object) -> list[str]:
    if not isinstance(items, list):
        return []
    return [str(item["uuid"]) if isinstance(item, dict) else str(item) for item in items]

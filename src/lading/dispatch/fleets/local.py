"""The fleet of this machine: supervisors forked from a forkserver, watched by pidfd.

The forkserver is a child process that has all modules imported (`supervisor.process.forkserver`
describes its protocol). It is started again whenever it ends; supervisors live in sessions of their
own and survive it, and this dispatcher.

- The forkserver reports when a supervisor has ended its container, and a supervisor's pidfd
  becomes readable when its process ends: no polling, and no confusion by reused process ids.
- A container whose supervisor was killed goes on in many cases: its command is still there, and
  the forkserver lets another supervisor go on with it (`resume`). It counts as alive meanwhile.
- It also reports when a command has ended whose results are still being saved: such a process takes
  no VCPUs and RAM any more, so that another container begins meanwhile. Only a few processes at a
  time count so (`most_idle`), which bounds the number of supervisors however long they save.
- It also reports when the preparation of an image and inputs takes a while, and when it is done.
  Meanwhile the process takes no VCPUs and RAM either, again for a few at a time (`most_preparing`);
  then it waits for them (`asking`).
- A process may serve the next container, so signals go through the forkserver, which knows the
  present container of each. Without a forkserver no process gets another container, and signals go
  by pidfd.
- After every start of the forkserver its list of run directories is read: live supervisors that
  are not known yet (started by an earlier dispatcher, or just before the forkserver died) are
  adopted, dead ones are shown as exited.
- While there is no forkserver, the worker is not in the view, so that nothing is locked in vain.
- A supervisor removes its run directory as its last act. Without a run directory, `clean` has
  nothing to do.

Source: docs/spec/dispatch, section Local fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
import socket
from collections.abc import Sequence
from itertools import islice
from typing import Self

import msgspec

from lading.client.caches.disk_space import is_short
from lading.core.errors import Conflict, ExecutionError, Failure, Unavailable
from lading.core.resources import Resources, total
from lading.core.scheduling.planning import FleetWorker
from lading.core.values import JsonObject
from lading.dispatch.capacity import Shares
from lading.dispatch.fleet import FleetSite, FleetView, LookUp, StartRequest, SupervisorProcess
from lading.dispatch.fleets.local_machine import LocalMachine
from lading.dispatch.fleets.local_settings import WORKER, LocalSettings, local_settings
from lading.dispatch.fleets.ready_images import ReadyImages
from lading.dispatch.gpu_watch import GpuWatch
from lading.net.rpc import PacketChannel, RpcReply
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

# One message to the forkserver holds 256 KiB; a larger record is asked for.
_MOST_KNOWN = 1 << 16
_logger = logging.getLogger("lading.dispatch")


def open_local(site: FleetSite) -> LocalFleet:
    """The fleet of this machine, from the configuration."""
    return LocalFleet(local_settings(site))


class LocalFleet:
    """Implements `Fleet`. Use as `async with`: leaving it ends the forkserver and leaves the
    supervisors running.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self.settings = settings
        self._shares: Shares | None = None
        self._processes: dict[str, SupervisorProcess] = {}
        self._pidfds: dict[str, int] = {}
        self._early: set[str] = set()
        self._announced: dict[str, SupervisorProcess] = {}
        self._idle: dict[str, None] = {}
        self._is_known = False
        self._channel: PacketChannel | None = None
        self._change = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._look_up: LookUp = lambda _: None
        self._others = Resources()
        self._crowd = 0
        self._shortage = ""
        self._images = ReadyImages()
        # Containers with a start of which it is not known what came of it.
        self._doubtful: set[str] = set()
        self._internet_fault = ""
        # Containers whose supervisor has died, and which another one may go on with.
        self._bereaved: asyncio.Queue[str] = asyncio.Queue()
        self.machine_source = LocalMachine(
            self,
            worker=WORKER,
            capacity=settings.capacity,
            directory=settings.run_directory.parent,
            price=settings.price,
            look_up=lambda uuid: self._look_up(uuid),
            changed=self._change.set,
            gpus=settings.gpus,
        )

    async def __aenter__(self) -> Self:
        if self.settings.shares is not None:
            # The path of the run directory is unique on the machine, but may be too long for a file
            # name.
            name = hashlib.sha256(str(self.settings.run_directory).encode()).hexdigest()[:16]
            self._shares = Shares(self.settings.shares, name=name)
        self._keeper = asyncio.create_task(self._serve_all(), name="forkserver")
        self._keeper.add_done_callback(lambda _: self._change.set())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._keeper is not None:
            await cancel_all(self._keeper)
            self._keeper = None
        for uuid in list(self._pidfds):
            self._unwatch(uuid)
        if self._shares is not None:
            self._shares.close()
            self._shares = None

    def set_lookup(self, look: LookUp) -> None:
        """Set the function that looks up the needs of containers that an earlier dispatcher
        started.
        """
        self._look_up = look

    def view(self) -> FleetView:
        """The present state."""
        # Before each plan: a disk that fills up between two looks of the watch would have the same
        # containers started and given back many times a second.
        self._look_at_disk()
        # Without a channel nothing can be started: the worker is left out, so that nothing is
        # locked for it.
        workers = (self._worker(),) if self._channel is not None else ()
        is_held = self.machine_source.hold_reason is not None
        return FleetView(
            is_known=self._is_known,
            workers=workers,
            processes=dict(self._processes),
            shortage=self.machine_source.shortage if is_held else self._shortage,
            ready_images=self._images.hashes if self._may_start_at_once else (),
        )

    @property
    def _may_start_at_once(self) -> bool:
        """Whether a lock may make containers Running: no other dispatcher can take the room after
        the lock, and no proxy can repeat the call, whose second answer would tell of a lost lock.
        """
        return self._shares is None and bool(self.settings.template.get("api_socket"))

    def _worker(self) -> FleetWorker:
        capacity = self.settings.capacity
        if self._shares is not None:
            self._shares.tell(self._taken())
            capacity -= self._others
        crowd = min(self._crowd, capacity.ram)
        gpus = self.settings.gpus
        kinds = gpus.kinds if gpus else ()
        failed = max(0, self.settings.capacity.gpus - sum(kind.count for kind in kinds))
        return FleetWorker(
            WORKER, capacity - Resources(0, crowd, gpus=failed),
            partitions=self.settings.partitions, gpu_kinds=kinds, others=crowd,
            gpu_numbers=gpus.numbers() if gpus and len(kinds) > 1 else {},
            internet_fault=self._internet_fault, gpu_fault=gpus.fault if gpus else "",
        )  # fmt: skip

    def _taken(self) -> Resources:
        """Resources of the containers here that have not ended."""
        containers = ((self._look_up(uuid), process) for uuid, process in self._processes.items())
        return total(
            process.takes(container.need)
            for container, process in containers
            if container is not None and not container.final
        )

    async def changed(self) -> None:
        """Wait until the view may have changed. Raises the error that ended the task of the
        forkserver .
        """
        await self._change.wait()
        self._change.clear()
        if self._keeper is not None and self._keeper.done():
            self._keeper.result()

    async def start(self, assignment: StartRequest) -> None:
        """Fork a supervisor. Raises Conflict, Unavailable, ExecutionError."""
        uuid = assignment.uuid
        if uuid in self._processes:
            raise Conflict(f"{uuid}: an earlier supervisor is still there")
        if self._shares is not None:
            self._others = self._shares.others()
            # Two dispatchers may read the same free resources; `claim` decides under the lock that
            # all dispatchers of the machine share.
            if not self._shares.claim(
                self._taken(), assignment.container.need, self.settings.capacity
            ):
                raise Unavailable(
                    "Another dispatcher of this machine was quicker to give the room away."
                )
        self._images.begin(uuid, assignment.records.get("container"))
        try:
            answer = await self._connected().request(
                "start", timeout=self.settings.start_timeout, assignment=self._message(assignment)
            )
            if answer.op != "started":
                answer.close()
                fault = str(answer.get("error") or "the forkserver refused")
                raise ExecutionError(f"No supervisor could be started: {fault}", Failure.NODE)
            self._adopt([uuid], answer.descriptors)
        except (ExecutionError, Unavailable):
            self._images.distrust(uuid)
            self._doubtful.add(uuid)
            raise

    async def signal(self, uuid: str, number: signal.Signals) -> None:
        """Send a signal to a living supervisor. Raises Unavailable when the forkserver does not
        answer.
        """
        descriptor = self._pidfds.get(uuid)
        if descriptor is None:
            return
        # The forkserver knows which container a pooled process serves now: a signal by pidfd could
        # hit the next container of that process.
        if self._channel is not None:
            answer = await self._channel.request(
                "signal",
                timeout=self.settings.start_timeout,
                uuid=uuid,
                signal=number.name.removeprefix("SIG"),
            )
            answer.close()
        else:
            try:
                signal.pidfd_send_signal(descriptor, number)
            except ProcessLookupError:
                self._ended(uuid)
        if number is signal.SIGCONT and uuid in self._pidfds and self._processes[uuid].asking:
            # Its resources are counted already, since it asks. Without the signal it keeps asking.
            self._show(uuid, SupervisorProcess(WORKER))

    async def clean(self, uuid: str) -> None:
        """Remove the remains of a dead supervisor. Raises Conflict, Unavailable."""
        if uuid in self._pidfds:
            raise Conflict(f"{uuid}: its supervisor is alive")
        # A supervisor removes its run directory last: without one there is nothing to clear away,
        # and the forkserver is not needed, unless an order to start it may be on its way there.
        directory = self.settings.run_directory / uuid
        if uuid in self._doubtful or await asyncio.to_thread(directory.exists):
            answer = await self._connected().request(
                "clean", timeout=self.settings.clean_timeout, uuid=uuid
            )
            answer.close()
            if answer.op != "cleaned" or answer.get("error"):
                raise Unavailable(f"{uuid} could not be cleared away: {answer.get('error')}")
        self._processes.pop(uuid, None)
        self._doubtful.discard(uuid)
        self._change.set()

    def _message(self, assignment: StartRequest) -> JsonObject:
        fields: JsonObject = dict(self.settings.template)  # type: ignore[arg-type]
        return fields | {
            "container_uuid": assignment.uuid,
            "supervisor_token": assignment.token,
            "run_directory": str(self.settings.run_directory / assignment.uuid),
            "is_started": assignment.is_started,
            "known": assignment.records
            if len(msgspec.json.encode(assignment.records)) <= _MOST_KNOWN
            else {},
        }

    def _connected(self) -> PacketChannel:
        if self._channel is None:
            raise Unavailable("The forkserver of the supervisors is being started.")
        return self._channel

    async def _serve_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep(), name="forkserver")
            tasks.create_task(self._watch_disk(), name="disk")
            tasks.create_task(self._resume_all(), name="resumption")
            if self.settings.gpus is not None:
                tasks.create_task(self._watch_gpus(self.settings.gpus), name="GPUs")
            if self._shares is not None:
                tasks.create_task(self._watch(self._shares), name="shares")

    async def _watch(self, shares: Shares) -> None:
        """Watch the resources that other dispatchers of this machine take and give back."""
        while True:
            others = shares.others()
            if others != self._others:
                self._others = others
                self._change.set()
            await asyncio.sleep(self.settings.share_interval)

    async def _watch_gpus(self, gpus: GpuWatch) -> None:
        """Notice GPUs that fail, and those that work again."""
        while True:
            await asyncio.sleep(self.settings.gpu_interval)
            if await asyncio.to_thread(gpus.look):
                event(_logger, "GPUs changed", fault=gpus.fault or "none")
                self.machine_source.note_gpus(gpus.fault)
                self._change.set()

    async def _watch_disk(self) -> None:
        """Notice when there is too little room for further containers, and when there is enough
        again: on the disk, and in RAM that other programs use.
        """
        while True:
            before = self._shortage, self._crowd, self._internet_fault
            self._internet_fault = self.settings.internet_fault()
            self._look_at_disk()
            if self.settings.others is not None:
                # Two small files of the kernel.
                self._crowd = self.settings.others(self._taken().ram)
            if (self._shortage, self._crowd, self._internet_fault) != before:
                self._change.set()
            await asyncio.sleep(self.settings.disk_interval)

    def _look_at_disk(self) -> None:
        # Without an answer of the file system the last result stays.
        with contextlib.suppress(OSError):
            shortage = is_short(self.settings.run_directory, self.settings.reserve)
            if bool(shortage) != bool(self._shortage):
                event(
                    _logger,
                    "disk almost full" if shortage else "disk has room again",
                    why=shortage,
                )
                self._shortage = shortage

    async def _keep(self) -> None:
        loop, pause = asyncio.get_running_loop(), self.settings.restart_first
        while True:
            began = loop.time()
            try:
                await self._serve()
            except (Unavailable, OSError) as error:
                event(_logger, "forkserver failed", why=error)
            # A forkserver that ends soon after its start is started again with growing pauses:
            # each start imports all modules of a supervisor.
            if loop.time() - began > self.settings.restart_longest:
                pause = self.settings.restart_first
            await asyncio.sleep(pause)
            pause = min(pause * 2, self.settings.restart_longest)

    async def _serve(self) -> None:
        """Run one forkserver until it ends."""
        # SEQPACKET keeps the bounds of messages, which carry descriptors.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                # The other end is closed here once the child has it: else its end would not be
                # noticed.
                process = await self._spawn(theirs.fileno())
            channel = PacketChannel(
                ours, peer="The forkserver of the supervisors", stray=self._take_stray
            )
            try:
                await self._survey(channel)
                event(_logger, "forkserver ready", pid=process.pid, processes=len(self._processes))
                await channel.wait_closed()
            finally:
                self._channel = None
                self._early.clear()
                self._announced.clear()
                self._idle = {uuid: None for uuid in self._idle if uuid in self._pidfds}
                # Supervisors that see the end of the forkserver do not wait for room any more.
                for uuid in [
                    supervised
                    for supervised, process in self._processes.items()
                    if process.preparing or process.asking
                ]:
                    self._show(uuid, SupervisorProcess(WORKER))
                self._change.set()
                channel.close()
                code = await self._stop(process)
                event(_logger, "forkserver ended", pid=process.pid, code=code)

    async def _spawn(self, descriptor: int) -> asyncio.subprocess.Process:
        arguments = ("--fd", str(descriptor), "--run", str(self.settings.run_directory))
        spawning = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self.settings.command,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(descriptor,),
            )
        )
        try:
            # Shielded: a cancellation between fork and the return would leave a child that nobody
            # ends.
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:
            await _kill(await spawning)
            raise

    async def _stop(self, process: asyncio.subprocess.Process) -> int:
        try:
            async with asyncio.timeout(self.settings.stop_timeout):
                return await process.wait()
        except TimeoutError:
            return await _kill(process)
        except asyncio.CancelledError:
            # No task waits for this process any more, and its successor needs the same files.
            await _kill(process)
            raise

    async def _survey(self, channel: PacketChannel) -> None:
        answer = await channel.request("list", timeout=self.settings.ready_timeout)
        if answer.op != "listed":
            answer.close()
            raise Unavailable(f"The forkserver did not list its processes: {answer.get('error')}")
        self._adopt(_uuids(answer.get("live")), answer.descriptors)
        for uuid in _uuids(answer.get("dead")):
            self._processes.setdefault(uuid, SupervisorProcess(WORKER, alive=False))
        # Nothing is known before the first list: an earlier dispatcher's supervisors may still run.
        self._is_known = True
        self._channel = channel
        self._change.set()

    def _take_stray(self, answer: RpcReply) -> None:
        uuid = str(answer.get("uuid"))
        if answer.op == "ended":
            if uuid in self._pidfds:
                self._ended(uuid)
            else:
                # The message `started` is on its way to the caller.
                self._early.add(uuid)
        elif answer.op == "idle":
            self._images.has_run(uuid)
            self._idle[uuid] = None
            self._mark_idle()
        elif answer.op == "preparing":
            self._images.has_not_run(uuid)
            if (
                # Beyond the limit a container that prepares keeps its resources, so that no other
                # one is started for them.
                sum(process.preparing for process in self._processes.values())
                < self.settings.most_preparing
            ):
                self._show(uuid, SupervisorProcess(WORKER, preparing=True))
        elif answer.op == "asking":
            self._show(uuid, SupervisorProcess(WORKER, asking=True))
        elif answer.op == "started" and len(answer.descriptors) == 1:
            self._adopt(_uuids([answer.message]), answer.descriptors)
        else:
            answer.close()

    def _adopt(self, uuids: Sequence[str], descriptors: Sequence[int]) -> None:
        if len(uuids) != len(descriptors):
            for descriptor in descriptors:
                os.close(descriptor)
            raise Unavailable(
                f"The forkserver sent {len(descriptors)} descriptors for {len(uuids)} processes."
            )
        loop = asyncio.get_running_loop()
        for uuid, descriptor in zip(uuids, descriptors, strict=True):
            if uuid in self._pidfds:
                os.close(descriptor)
                continue
            self._pidfds[uuid] = descriptor
            self._processes[uuid] = self._announced.pop(uuid, SupervisorProcess(WORKER))
            # Readable once the process has ended (pidfd_open(2)), independent of the forkserver.
            loop.add_reader(descriptor, self._died, uuid)
            if uuid in self._early:
                self._early.discard(uuid)
                self._ended(uuid)
        self._mark_idle()
        self._change.set()

    def _show(self, uuid: str, process: SupervisorProcess) -> None:
        """Show a living process in the view now, or once the caller of `start` has its answer."""
        if uuid in self._pidfds:
            self._processes[uuid] = process
            self._change.set()
        else:
            self._announced[uuid] = process

    def _mark_idle(self) -> None:
        """Show the processes that became idle first as idle, up to the allowed number."""
        for uuid in islice(self._idle, self.settings.most_idle):
            if uuid in self._pidfds and not self._processes[uuid].idle:
                self._processes[uuid] = SupervisorProcess(WORKER, idle=True)
                self._change.set()

    def _died(self, uuid: str) -> None:
        self._images.distrust(uuid)
        if self._channel is None:
            self._ended(uuid)
            return
        self._unwatch(uuid)
        self._bereaved.put_nowait(uuid)

    async def _resume_all(self) -> None:
        """Let other supervisors go on with the containers of dead ones, one after the other."""
        while True:
            uuid = await self._bereaved.get()
            try:
                answer = await self._connected().request(
                    "resume", timeout=self.settings.start_timeout, uuid=uuid
                )
                if answer.op == "resumed":
                    self._adopt([uuid], answer.descriptors)
                    event(_logger, "supervisor replaced", container=uuid, pid=answer.get("pid"))
                    continue
                answer.close()
                why = answer.get("error")
            except Unavailable as error:
                why = error
            event(_logger, "supervisor not replaced", container=uuid, why=why)
            self._gone(uuid)

    def _ended(self, uuid: str) -> None:
        self._unwatch(uuid)
        self._gone(uuid)

    def _gone(self, uuid: str) -> None:
        self._images.has_not_run(uuid)
        self._processes[uuid] = SupervisorProcess(WORKER, alive=False)
        self._idle.pop(uuid, None)
        self._mark_idle()
        self._change.set()

    def _unwatch(self, uuid: str) -> None:
        descriptor = self._pidfds.pop(uuid)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def _kill(process: asyncio.subprocess.Process) -> int:
    # The process may have ended a moment ago.
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    return await process.wait()


def _uuids(items: object) -> list[str]:
    if not isinstance(items, list):
        return []
    return [str(item["uuid"]) if isinstance(item, dict) else str(item) for item in items]

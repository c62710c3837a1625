"""Reusable supervisor processes of the forkserver: each serves one container after the other.

A newly forked process copies every page that it writes to, and specialises code again; that costs
more than everything else that a supervisor does for a short container. So a supervisor that has
ended a container in good order waits for the next, which gets a clean start.

Good order: nothing was raised, the run directory is gone (with it every mount and every file of
that container), no task is left, and the process has not grown. Otherwise it exits, which the
parent notices at once.

Protocol, in packets (`net.rpc`): the parent sends an assignment, with the locked descriptor of its
run directory. The worker sends {"op": "preparing"} and {"op": "asking"} (`Turn`), {"op":
"handover"} with the descriptors by which another process can go on with the container
(`lifecycle.handover`), {"op": "free"} when the command has ended and only its results are still to
be saved, and {"op": "done"} when it has ended in good order and released the lock, or {"op":
"last"} when it serves no further one. When the parent's end closes, the worker ends as soon as it
serves no container.

`WorkerPool` assigns workers to containers and retires idle ones. Only the forkserver gives a
worker its next container. So a signal that it sends to the worker of a container reaches that
container or nobody, never the next container.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import select
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from lading.client.transport import Transport
from lading.core.errors import LadingError, TooLarge
from lading.core.scheduling.resumption import MOST_RESUMPTIONS
from lading.net import rpc
from lading.process.tracing import TracingSettings
from lading.supervisor import journal, supervisor_config
from lading.supervisor.container_trace import close_tracer
from lading.supervisor.engines import EngineMaker
from lading.supervisor.lifecycle.handover import MOST_DESCRIPTORS
from lading.supervisor.process.serving import Signals, ignore_probes, live, take_own_mounts
from lading.supervisor.session import open_transport
from lading.supervisor.supervisor_config import SupervisorConfig

PREPARING = rpc.encode({"op": "preparing"})
ASKING = rpc.encode({"op": "asking"})
HANDOVER = rpc.encode({"op": "handover"})
FREE = rpc.encode({"op": "free"})
DONE = rpc.encode({"op": "done"})
LAST = rpc.encode({"op": "last"})
# Seconds of preparation before VCPUs are given back.
_PATIENCE = 0.5
# Containers that one process serves at most.
_LIVES = 1000
# Resident bytes above which a process is not used again.
_LARGE = 96 << 20
# Iterations of the event loop in which cancelled tasks may end.
_ROUNDS = 3
_PAGE = resource.getpagesize()
_logger = logging.getLogger("lading.supervisor")
IDLE = 10.0
"""Seconds after which an idle worker is retired."""
_WORDS = MappingProxyType({FREE: "idle", PREPARING: "preparing", ASKING: "asking"})


def work(connection: socket.socket, run_root: Path, *, engines: EngineMaker) -> int:
    """Serve containers, with run directories below `run_root`, until there is a reason to end;
    return the exit code.
    """
    ignore_probes()
    take_own_mounts(run_root)
    return asyncio.run(serve(connection, engines))


async def serve(connection: socket.socket, engines: EngineMaker, *, large: int = _LARGE) -> int:
    """Like `work`, in a prepared process, which is not used again above `large` bytes of memory."""
    signals, way, tracing = Signals(), _Way(), TracingSettings()
    connection.setblocking(False)
    try:
        for _ in range(_LIVES):
            order = await _receive(connection)
            if order is None:
                return 0
            config, lock = order
            tracing = config.tracing
            signals.renew()
            journal.write_holder(
                lock, journal.LockHolder(UUID=config.container_uuid, PID=os.getpid())
            )
            code = await live(
                config,
                signals,
                engines=engines,
                transport=await way.to(config),
                on_idle=lambda: say_free(connection),
                hand_over=lambda descriptors: keep_handover(connection, descriptors),
                turn=_turn(connection, signals.go).prepare,
            )
            # The lock is then released by the end of the process, after which the parent cleans up.
            if not await _in_good_order(config, large):
                return code
            journal.release_lock(lock)
            await asyncio.get_running_loop().sock_sendall(connection, DONE)
    except (LadingError, BrokenPipeError, ConnectionResetError) as error:
        _logger.error("a supervisor ends: %s", error)
        return 1
    finally:
        await way.close()
        await asyncio.to_thread(close_tracer, tracing)
    return 0


def say_free(connection: socket.socket) -> None:
    """Tell the parent that only results are still to be saved."""
    # The parent may be gone; an unheard word costs only time.
    with contextlib.suppress(OSError):
        connection.send(FREE)


def keep_handover(connection: socket.socket, descriptors: Sequence[int]) -> None:
    """Let the parent keep a handover."""
    # Without a parent nobody goes on with the container.
    with contextlib.suppress(OSError):
        rpc.send_packet(connection, HANDOVER, descriptors)


class Turn:
    """The turn of one container to use processors, which it waits for after a long preparation.

    It says `PREPARING` when its preparation takes longer than a moment; from then on others may use
    its VCPUs and RAM. When all is ready it says `ASKING` and waits for permission. A quickly
    prepared container says nothing. Without a listener it continues at once: too many containers
    for a while are better than one that waits for ever. `say` sends a message to the starter of
    this process; `go` returns when the container may continue.
    """

    def __init__(
        self,
        say: Callable[[bytes], bool],
        go: Callable[[], Awaitable[None]],
        *,
        patience: float = _PATIENCE,
    ) -> None:
        self._say = say
        self._go = go
        self._patience = patience
        self._is_given_back = False

    async def prepare(self, work: Awaitable[object]) -> None:
        """Await the preparation `work`, then wait for processors. Errors of `work` are raised at
        once.
        """
        handle = asyncio.get_running_loop().call_later(self._patience, self._give_back)
        try:
            await work
        finally:
            handle.cancel()
        if self._is_given_back and self._say(ASKING):
            await self._go()

    def _give_back(self) -> None:
        self._is_given_back = self._say(PREPARING)


def _turn(connection: socket.socket, go: asyncio.Event) -> Turn:
    """The turn of the current container."""

    def say(word: bytes) -> bool:
        try:
            connection.send(word)
        except OSError:
            # The forkserver has ended.
            return False
        return True

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        # The parent sends nothing now, so its descriptor becomes readable only when it is closed;
        # then nobody sends `go` any more.
        loop.add_reader(connection.fileno(), go.set)
        try:
            await go.wait()
        finally:
            loop.remove_reader(connection.fileno())

    return Turn(say, wait)


class _Way:
    """The connection to the server, kept from one container to the next while the address stays the
    same.
    """

    def __init__(self) -> None:
        self._open: Transport | None = None
        self._address: tuple[object, ...] = ()

    async def to(self, config: SupervisorConfig) -> Transport:
        """Transport for an assignment."""
        address = (config.api_socket, config.api_url, config.api_ca_file, config.api_insecure)
        if self._open is None or address != self._address:
            await self.close()
            self._open, self._address = open_transport(config), address
        return self._open

    async def close(self) -> None:
        """Close it."""
        way, self._open = self._open, None
        if way is not None:
            await way.close()


async def _receive(connection: socket.socket) -> tuple[SupervisorConfig, int] | None:
    """The next assignment and the lock of its run directory; None when there will be none."""
    packet = await rpc.wait_packet(connection, descriptors=1)
    return (supervisor_config.parse(packet.data), packet.descriptors[0]) if packet.data else None


async def _in_good_order(config: SupervisorConfig, large: int) -> bool:
    """Whether nothing of the served container is left in this process."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
    # One task: this one.
    return (
        len(asyncio.all_tasks()) == 1 and not _exists(config.run_directory) and _resident() < large
    )


def _exists(directory: str) -> bool:
    return os.path.lexists(directory)


def _resident() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


@dataclass(slots=True)
class KeptHandover:
    """Descriptors by which another process can go on with a container, and how often one has."""

    descriptors: tuple[int, ...]
    resumptions: int = 0

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


@dataclass(slots=True, eq=False)
class PooledWorker:
    """A forked process. `uuid` is the container that it serves, "" while it is idle."""

    pid: int
    pidfd: int
    connection: socket.socket
    uuid: str = ""
    since: float = 0.0
    """Time at which it became idle; seconds, monotonic."""
    handover: KeptHandover | None = None
    """That of its container."""


@dataclass(slots=True)
class WorkerPool:
    """The live workers. `hire` forks another one, given its end of a new connection, and returns
    the pid. `succeed` forks a process that goes on with the container of a handover, given its end
    of a connection, the descriptors of the handover, and that of the lock of the run directory.

    `tell` is called with reports about the container of a worker: "preparing", "asking"
    (`Turn`), or "idle" when the command has ended and its results are being
    saved.
    """

    hire: Callable[[socket.socket], int]
    succeed: Callable[[socket.socket, tuple[int, ...], int], int]
    tell: Callable[[str, str], None]
    poll: select.poll
    clock: Callable[[], float]
    most_idle: int
    _by_descriptor: dict[int, PooledWorker] = field(default_factory=dict)
    _idle: list[PooledWorker] = field(default_factory=list)
    _handovers: dict[str, KeptHandover] = field(default_factory=dict)
    _new: socket.socket | None = None

    def assign(self, uuid: str, message: bytes, lock: int) -> PooledWorker:
        """Let a worker serve a container, whose run directory is locked by `lock`. Raises OSError
        when none can be forked.
        """
        while self._idle:
            # The last one to become idle first, so that the longest idle ones can be retired.
            worker = self._idle.pop()
            try:
                self._send(worker, uuid, message, lock)
            except OSError:
                # It ended a moment ago; its pidfd will report that.
                continue
            return worker
        worker = self._hire(self.hire)
        self._send(worker, uuid, message, lock)
        return worker

    def resume(self, uuid: str, lock: int) -> PooledWorker | None:
        """Let another process go on with a container whose worker has ended, and whose run
        directory is locked by `lock`; None when there is no
        handover of it, or when too many processes have ended with it. Raises OSError when none can
        be forked.
        """
        for worker in set(self._by_descriptor.values()):
            # Its end may not have been noticed yet.
            if worker.uuid == uuid and _is_readable(worker.pidfd):
                self._end(worker)
        handover = self._handovers.get(uuid)
        if handover is None or handover.resumptions >= MOST_RESUMPTIONS:
            return None
        descriptors = handover.descriptors
        # A forked process closes all other handovers.
        del self._handovers[uuid]
        try:
            successor = self._hire(lambda theirs: self.succeed(theirs, descriptors, lock))
        except OSError:
            self._handovers[uuid] = handover
            raise
        successor.uuid = uuid
        successor.handover = KeptHandover(descriptors, handover.resumptions + 1)
        return successor

    def forget(self, uuid: str) -> None:
        """Let no other process go on with a container."""
        for worker in self._by_descriptor.values():
            if worker.uuid == uuid and worker.handover is not None:
                worker.handover.close()
                worker.handover = None
        if handover := self._handovers.pop(uuid, None):
            handover.close()

    def take(self, descriptor: int) -> str | None:
        """Handle a ready descriptor of a worker: the uuid of a container that was ended in good
        order, else "".

        None when the descriptor belongs to no worker.
        """
        worker = self._by_descriptor.get(descriptor)
        if worker is None:
            return None
        return self._end(worker) if descriptor == worker.pidfd else self._hear(worker)

    def _end(self, worker: PooledWorker) -> str:
        """Take the last words of a worker that has ended, and let go of it; as `take`."""
        uuid = ""
        while worker.connection.fileno() >= 0 and _is_readable(worker.connection.fileno()):
            uuid = self._hear(worker) or uuid
        self._bury(worker)
        return uuid

    def _hear(self, worker: PooledWorker) -> str:
        """Take a word of a worker, or the end of its connection; as `take`."""
        try:
            packet = rpc.receive_packet(worker.connection, descriptors=MOST_DESCRIPTORS)
            word = packet.data
        except (OSError, TooLarge):
            word = b""
        if word == HANDOVER:
            earlier, worker.handover = worker.handover, KeptHandover(packet.descriptors)
            if earlier is not None:
                earlier.close()
                worker.handover.resumptions = earlier.resumptions
            return ""
        if word in _WORDS:
            self.tell(_WORDS[word], worker.uuid)
            return ""
        if word not in (DONE, LAST):
            self._part(worker)
            return ""
        if worker.handover is not None:
            worker.handover.close()
            worker.handover = None
        uuid, worker.uuid, worker.since = worker.uuid, "", self.clock()
        if word == LAST:
            # It ends now.
            return uuid
        self._idle.append(worker)
        if len(self._idle) > self.most_idle:
            self._part(self._idle[0])
        return uuid

    def timeout(self) -> float | None:
        """Seconds until `retire` has work; None for never."""
        return max(0.0, self._idle[0].since + IDLE - self.clock()) if self._idle else None

    def retire(self) -> None:
        """Release workers that were idle for `IDLE` seconds. The list is in the order of becoming
        idle.
        """
        while self._idle and self.clock() - self._idle[0].since >= IDLE:
            self._part(self._idle[0])

    def leave(self) -> None:
        """Close descriptors that a forked process must not hold: with a copy of them no worker
        would see the end of its parent.
        """
        for worker in set(self._by_descriptor.values()):
            os.close(worker.pidfd)
            worker.connection.close()
            if worker.handover is not None:
                worker.handover.close()
        for handover in self._handovers.values():
            handover.close()
        if self._new is not None:
            self._new.close()

    def _hire(self, fork: Callable[[socket.socket], int]) -> PooledWorker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The child closes this end by `leave`.
        self._new = ours
        try:
            with theirs:
                pid = fork(theirs)
        except OSError:
            ours.close()
            raise
        finally:
            self._new = None
        worker = PooledWorker(pid, os.pidfd_open(pid), ours)
        for descriptor in (worker.pidfd, ours.fileno()):
            self._by_descriptor[descriptor] = worker
            self.poll.register(descriptor, select.POLLIN)
        return worker

    def _send(self, worker: PooledWorker, uuid: str, message: bytes, lock: int) -> None:
        rpc.send_packet(worker.connection, message, (lock,))
        worker.uuid = uuid

    def _part(self, worker: PooledWorker) -> None:
        """Close the connection; the worker then exits by itself."""
        if worker in self._idle:
            self._idle.remove(worker)
        descriptor = worker.connection.fileno()
        if descriptor >= 0:
            self.poll.unregister(descriptor)
            del self._by_descriptor[descriptor]
            worker.connection.close()

    def _bury(self, worker: PooledWorker) -> None:
        # A connection may have been closed before its process ended.
        self._part(worker)
        self.poll.unregister(worker.pidfd)
        del self._by_descriptor[worker.pidfd]
        os.close(worker.pidfd)
        os.waitpid(worker.pid, 0)
        if worker.handover is not None:
            self._handovers[worker.uuid] = worker.handover


def _is_readable(descriptor: int) -> bool:
    """Whether there is something to read; of a pidfd, whether its process has ended."""
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    return bool(ready.poll(0))

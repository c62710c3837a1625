"""The workers of the warm parent: assigns them to containers and retires idle ones.

Only the warm parent gives a worker its next container. So a signal that it sends to the worker of a
container reaches that container or nobody, never the next container.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType

from lading.core.errors import TooLarge
from lading.net import rpc
from lading.supervisor.process.turn import ASKING, PREPARING
from lading.supervisor.process.worker import DONE, FREE

IDLE = 10.0
"""Seconds after which an idle worker is retired."""
_WORDS = MappingProxyType({FREE: "idle", PREPARING: "preparing", ASKING: "asking"})


@dataclass(slots=True, eq=False)
class PooledWorker:
    """A forked process. `uuid` is the container that it serves, "" while it is idle."""

    pid: int
    pidfd: int
    connection: socket.socket
    uuid: str = ""
    since: float = 0.0
    """Time at which it became idle; seconds, monotonic."""


@dataclass(slots=True)
class WorkerPool:
    """The live workers. `hire` forks another one, given its end of a new connection, and returns
    the pid.

    `tell` receives reports about the container of a worker: "preparing", "asking"
    (`supervisor.process.turn`), or "idle" when the command has ended and its results are being
    saved.
    """

    hire: Callable[[socket.socket], int]
    tell: Callable[[str, str], None]
    poll: select.poll
    clock: Callable[[], float]
    most_idle: int
    _by_descriptor: dict[int, PooledWorker] = field(default_factory=dict)
    _idle: list[PooledWorker] = field(default_factory=list)
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
        worker = self._hire()
        self._send(worker, uuid, message, lock)
        return worker

    def take(self, descriptor: int) -> str | None:
        """Handle a ready descriptor of a worker: the uuid of a container that was ended in good
        order, else "".

        None when the descriptor belongs to no worker.
        """
        worker = self._by_descriptor.get(descriptor)
        if worker is None:
            return None
        if descriptor == worker.pidfd:
            self._bury(worker)
            return ""
        try:
            said = rpc.receive_packet(worker.connection).data
        except (OSError, TooLarge):
            said = b""
        if said in _WORDS:
            self.tell(_WORDS[said], worker.uuid)
            return ""
        if said != DONE:
            self._part(worker)
            return ""
        uuid, worker.uuid, worker.since = worker.uuid, "", self.clock()
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
        if self._new is not None:
            self._new.close()

    def _hire(self) -> PooledWorker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The child closes this end by `leave`.
        self._new = ours
        with theirs:
            pid = self.hire(theirs)
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

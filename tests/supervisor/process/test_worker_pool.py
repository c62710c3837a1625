"""Who serves which container; the workers here are processes that do what the test tells them."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lading.core.scheduling.resumption import MOST_RESUMPTIONS
from lading.net import rpc
from lading.supervisor.process.worker import (
    DONE,
    FREE,
    HANDOVER,
    IDLE,
    LAST,
    PooledWorker,
    WorkerPool,
)


@dataclass
class Yard:
    """A crew whose workers answer every order with `free` and `done`; on the order `die` they end
    instead. On `hand over` they hand over two descriptors, and again for each message, until `end`.
    A successor hands over, then waits for one message, and says that it was the last.
    """

    now: float = 0.0
    poll: select.poll = field(default_factory=select.poll)
    pids: list[int] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    crew: WorkerPool = field(init=False)

    def __post_init__(self) -> None:
        self.crew = WorkerPool(
            hire=self.hire,
            succeed=self.succeed,
            tell=self.tell,
            poll=self.poll,
            clock=lambda: self.now,
            most_idle=2,
        )

    def tell(self, word: str, uuid: str) -> None:
        assert word == "idle"
        self.idle.append(uuid)

    def hire(self, theirs: socket.socket) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self.crew.leave()
                while self.served(theirs):
                    pass
            finally:
                os._exit(0)
        self.pids.append(pid)
        return pid

    def served(self, theirs: socket.socket) -> bool:
        data, descriptors, _, _ = socket.recv_fds(theirs, 100, 1)
        if data in (b"", b"die"):
            return False
        os.close(descriptors[0])
        while data == b"hand over":
            rpc.send_packet(theirs, HANDOVER, (0, 1))
            data = theirs.recv(100)
        theirs.send(FREE)
        theirs.send(DONE)
        return True

    def succeed(self, theirs: socket.socket, descriptors: tuple[int, ...], lock: int) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self.crew.leave()
                for descriptor in (*descriptors, lock):
                    os.fstat(descriptor)
                rpc.send_packet(theirs, HANDOVER, descriptors)
                if theirs.recv(100):
                    theirs.send(LAST)
            finally:
                os._exit(0)
        self.pids.append(pid)
        return pid

    def take(self) -> list[str | None]:
        """Handle the next descriptors."""
        return [self.crew.take(descriptor) for descriptor, _ in self.poll.poll(10_000)]

    def resume(self, uuid: str) -> PooledWorker | None:
        lock = os.open(os.devnull, os.O_RDONLY)
        try:
            return self.crew.resume(uuid, lock)
        finally:
            os.close(lock)

    def kill(self, pid: int) -> None:
        """Kill a worker; it stays to be collected."""
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    def assign(self, uuid: str, told: bytes = b"go") -> int:
        lock = os.open(os.devnull, os.O_RDONLY)
        try:
            return self.crew.assign(uuid, told, lock).pid
        finally:
            os.close(lock)

    def hear(self) -> list[str]:
        """The containers whose end the next descriptors tell of."""
        told = len(self.idle)
        while True:
            found = [
                uuid
                for descriptor, _ in self.poll.poll(10_000)
                if (uuid := self.crew.take(descriptor))
            ]
            if found or len(self.idle) == told:
                return found
            told = len(self.idle)


@pytest.fixture
def yard() -> Iterator[Yard]:
    yard = Yard()
    yield yard
    yard.crew.leave()
    for pid in yard.pids:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            continue


def test_a_worker_that_is_done_serves_the_next(yard: Yard) -> None:
    first = yard.assign("one")
    assert yard.hear() == ["one"]
    assert yard.assign("two") == first
    assert yard.hear() == ["two"]
    assert len(yard.pids) == 1
    assert yard.idle == ["one", "two"]


def test_two_at_a_time_are_two_workers(yard: Yard) -> None:
    assert yard.assign("one") != yard.assign("two")
    heard: list[str] = []
    while len(heard) < 2:
        heard += yard.hear()
    assert sorted(heard) == ["one", "two"]


def test_one_that_ended_while_it_waited_is_replaced(yard: Yard) -> None:
    first = yard.assign("one")
    assert yard.hear() == ["one"]
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert yard.assign("two") != first
    while yard.hear() != ["two"]:
        pass


def test_an_end_in_the_middle_is_seen_by_the_pidfd_alone(yard: Yard) -> None:
    yard.assign("one", b"die")
    assert yard.hear() == []
    while len(yard.pids) > 1 or yard.crew.timeout() is not None or _alive(yard.pids[0]):
        assert yard.hear() == []


def test_they_are_let_go_when_they_have_waited(yard: Yard) -> None:
    yard.assign("one")
    assert yard.crew.timeout() is None
    assert yard.hear() == ["one"]
    assert yard.crew.timeout() == IDLE
    yard.crew.retire()
    assert yard.crew.timeout() == IDLE
    yard.now = IDLE
    yard.crew.retire()
    assert yard.crew.timeout() is None
    assert yard.hear() == []
    assert yard.assign("two") != yard.pids[0]


def test_no_more_wait_than_may(yard: Yard) -> None:
    for name in ("one", "two", "three"):
        yard.assign(name)
    heard: list[str] = []
    while len(heard) < 3:
        heard += yard.hear()
    again = {yard.assign(name) for name in ("four", "five", "six")}
    assert len(again & set(yard.pids[:3])) == 2


def test_a_descriptor_of_somebody_else(yard: Yard) -> None:
    assert yard.crew.take(0) is None


def test_another_process_goes_on_with_what_was_handed_over(yard: Yard) -> None:
    first = yard.assign("one", b"hand over")
    assert yard.take() == [""]
    yard.kill(first)
    # Its end was not noticed yet.
    successor = yard.resume("one")
    assert successor is not None
    assert successor.pid == yard.pids[1]
    assert yard.take() == [""]
    successor.connection.send(b"end")
    assert yard.hear() == ["one"]
    while _alive(successor.pid):
        yard.take()
    assert yard.resume("one") is None


def test_words_that_come_with_the_end_are_heard(yard: Yard) -> None:
    yard.assign("one", b"hand over")
    assert yard.take() == [""]
    yard.kill(yard.pids[0])
    successor = yard.resume("one")
    assert successor is not None
    successor.connection.send(b"end")
    os.waitid(os.P_PID, successor.pid, os.WEXITED | os.WNOWAIT)
    # Its handover, its last word and its end, seen by the pidfd first.
    assert yard.crew.take(successor.pidfd) == "one"
    assert yard.resume("one") is None


def test_it_is_not_tried_for_ever(yard: Yard) -> None:
    pid = yard.assign("one", b"hand over")
    for _ in range(MOST_RESUMPTIONS):
        yard.take()
        yard.kill(pid)
        successor = yard.resume("one")
        assert successor is not None
        pid = successor.pid
    assert yard.take() == [""]
    yard.kill(pid)
    assert yard.resume("one") is None


@pytest.mark.parametrize("is_ended", [False, True])
def test_what_is_to_end_is_not_gone_on_with(yard: Yard, is_ended: bool) -> None:
    pid = yard.assign("one", b"hand over")
    assert yard.take() == [""]
    if is_ended:
        yard.kill(pid)
        yard.take()
        yard.crew.forget("one")
    else:
        yard.crew.forget("one")
        yard.kill(pid)
    assert yard.resume("one") is None


def test_a_container_that_ended_leaves_no_handover(yard: Yard) -> None:
    before = _open_files()
    lock = os.open(os.devnull, os.O_RDONLY)
    worker = yard.crew.assign("one", b"hand over", lock)
    os.close(lock)
    assert yard.take() == [""]
    worker.connection.send(b"hand over")
    assert yard.take() == [""]
    worker.connection.send(b"end")
    assert yard.hear() == ["one"]
    # The connection and the pidfd of the idle worker.
    assert _open_files() == before + 2
    yard.kill(worker.pid)
    assert yard.resume("one") is None


def test_a_handover_is_kept_when_no_process_can_be_forked(yard: Yard) -> None:
    pid = yard.assign("one", b"hand over")
    assert yard.take() == [""]
    yard.kill(pid)

    def fail(*_: object) -> int:
        raise OSError("no more processes")

    yard.crew.succeed = fail
    with pytest.raises(OSError, match="no more"):
        yard.resume("one")
    yard.crew.succeed = yard.succeed
    assert yard.resume("one") is not None


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

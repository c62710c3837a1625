"""The forkserver: has everything imported and forks supervisors, which are used again.

    python -m lading.supervisor.process.forkserver --fd N --run DIR/run [--engine NAME]

N is one end of a socketpair for packets of `net.rpc`; DIR/run holds one run directory for each
container. NAME is the engine that most containers will have; any other works too, but each process
imports it for itself. Each request gets exactly one answer with the same `id` (any JSON value; null
when it had none); answers may come in another order than the requests. Descriptors come with the
answer that names them.

    {"op":"start","id":1,"assignment":{...}}
        {"op":"started","id":1,"uuid":U,"pid":P}            and one pidfd
        {"op":"refused","id":1,"uuid":U,"error":"one line"} nothing was started
      and later, without `id`:
        {"op":"preparing","uuid":U} its image and inputs take a while; it takes disk only until
                                    it asks
        {"op":"asking","uuid":U}    it is ready, and waits for the signal CONT
        {"op":"idle","uuid":U}      its command has ended, its results are being saved; it takes
                                    disk only. Not sent for all containers
        {"op":"ended","uuid":U}     its supervisor has ended it in good order
    {"op":"signal","id":2,"uuid":U,"signal":"TERM"}         TERM INT QUIT USR1 USR2 CONT KILL
        {"op":"signalled","id":2,"uuid":U,"delivered":true} false: nothing runs under this uuid
    {"op":"resume","id":6,"uuid":U}
        {"op":"resumed","id":6,"uuid":U,"pid":P}            and one pidfd
            another process goes on with a container whose supervisor has ended
        {"op":"refused","id":6,"uuid":U,"error":"one line"} `clean` must be sent
    {"op":"list","id":3}
        {"op":"listed","id":3,"live":[{"uuid":U,"pid":P},...],"dead":[U,...],"more":false}
            and one pidfd for each of `live`, in its order. When there are many there are several
            answers, all but the last with "more":true. Supervisors that an earlier forkserver
            started count. `dead` are run directories whose supervisor is gone: send `clean` for
            each. The last answer also has "outposts":[{"uuid":U,"ranks":N},...], alive or not.
    {"op":"clean","id":4,"uuid":U}
        {"op":"cleaned","id":4,"uuid":U,"error":""}
            sent when no process, cgroup, mount or run directory of it remains, also at once when
            there was none. `error` is a line with the fault of the clean-up, or that it is alive.
            Its outpost is ended first.
    {"op":"admit","id":5,"uuid":U,"ranks":N,"certificate":PEM,"key":PEM}
        {"op":"admitted","id":5,"uuid":U,"address":A,"port":P}
            a supervisor on another machine can have so many ranks of its gang here
            (`supervisor.gang.rank_launcher`); A is "" when the machine does not know its address
        {"op":"refused","id":5,"uuid":U,"error":"one line"}
    anything else
        {"op":"error","id":..,"error":"one line"}

A supervisor has ended when `ended` was sent or when its pidfd is readable, whichever is first: the
process may stay for the next container (`supervisor.process.worker`). Signals therefore go through
the forkserver for as long as there is one. The record of the container then has its final state;
if not, `clean` must be answered before the record is given back or cancelled. The forkserver ends
when the other end of the socket closes; supervisors continue until their containers have ended, in
sessions of their own.

One forkserver at a time serves a DIR/run, by a lock on it: the next one answers nothing before the
last one has ended. So its list has every supervisor that an order of an earlier dispatcher started,
and no such order is carried out later.

The run directory is locked (flock on `lock`) before the fork and for the supervisor's life, so a
listing never takes a starting container for a dead one. USR1 and USR2 have handlers before that, so
no probe can kill it: handlers and not SIG_IGN, which the container's command would inherit.

`DeferredRemoval` removes directories that could not be removed at once, by a process of low
priority beside the forkserver. It is started with the forkserver, and once a minute while
directories are waiting (`process.removal`); after an attempt without progress the pause doubles, up
to an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lading.client import fd_receiving
from lading.client.caches.disk_space import spread_directories
from lading.client.mount import service
from lading.core import ids
from lading.core.errors import Conflict, LadingError, TooLarge
from lading.net import rpc
from lading.process import removal, telemetry
from lading.process.telemetry import LogFormat
from lading.supervisor import journal, supervisor_config
from lading.supervisor.engines import AUTOMATIC, EngineMaker, find_engines
from lading.supervisor.gang import rank_launcher
from lading.supervisor.process.deferred_removal import DeferredRemoval
from lading.supervisor.process.resuming import resume
from lading.supervisor.process.serving import become_root_of_user, ignore_probes
from lading.supervisor.process.standalone import clean_after_crash as clean
from lading.supervisor.process.standalone import describe_fault as describe
from lading.supervisor.process.warmup import warm_up
from lading.supervisor.process.worker import WorkerPool, work

# Descriptors of one message; the kernel allows 253 (SCM_MAX_FD).
_MOST_DESCRIPTORS = 200
# Bytes of answers that the other side may leave unread, so that no request waits for it.
_SEND_BUFFER = 1 << 20
# Seconds for a child that was just forked to write its process id, which it does first of all.
_START_TIME = 1.0
# Modules that supervisors import when a container needs them, which is too late after a fork.
_PRELOADED = (fd_receiving, service)
_SIGNALS = {
    name: signal.Signals[f"SIG{name}"]
    for name in ("TERM", "INT", "QUIT", "USR1", "USR2", "CONT", "KILL")
}
_logger = logging.getLogger("lading.forkserver")
Message = dict[str, Any]


@dataclass(slots=True)
class _Cleaner:
    """A clean-up process. `request` is the request to answer; `reader` receives the message of a
    failure.
    """

    pid: int
    pidfd: int
    request: Message
    reader: int


@dataclass(slots=True)
class Forkserver:
    """The forkserver."""

    connection: socket.socket
    run_root: Path
    engines: EngineMaker
    turn: int
    """The descriptor that locks `run_root` (`_take_turn`)."""
    _cleaners: dict[int, _Cleaner] = field(default_factory=dict)
    _launchers: dict[int, int] = field(default_factory=dict)
    _poll: select.poll = field(default_factory=select.poll)
    _workers: WorkerPool = field(init=False)
    _tidier: DeferredRemoval = field(init=False)

    def __post_init__(self) -> None:
        self._workers = WorkerPool(
            hire=self._hire,
            succeed=self._succeed,
            tell=lambda word, uuid: self._send({"op": word, "uuid": uuid}),
            poll=self._poll,
            clock=time.monotonic,
            # Enough for the containers that end while others start, on all processors.
            most_idle=2 * (os.cpu_count() or 1),
        )
        places = removal.places(self.run_root.parent)
        self._tidier = DeferredRemoval(
            places, fork=self._fork, poll=self._poll, clock=time.monotonic
        )

    def serve(self) -> None:
        """Answer requests until the other end closes."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._poll.register(self.connection, select.POLLIN)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while True:
                self._tidier.look()
                retiring, wait = self._workers.timeout(), self._tidier.timeout()
                wait = wait if retiring is None else min(wait, retiring)
                # Milliseconds; one more, so that a rounded-down time does not wake the loop too
                # early.
                ready = [descriptor for descriptor, _ in self._poll.poll(wait * 1000 + 1)]
                requests = self.connection.fileno()
                for descriptor in ready:
                    if descriptor != requests:
                        self._heed(descriptor)
                # Last: what it opens may have the number of a descriptor that was ready and is
                # closed now.
                if requests in ready and not self._take_request():
                    return
                self._workers.retire()

    def _take_request(self) -> bool:
        """Answer one request; False at the end of the connection."""
        try:
            data = rpc.receive_packet(self.connection).data
        except TooLarge as error:
            self._send({"op": "error", "id": None, "error": error.message})
            return True
        if data:
            self._answer(data)
        return bool(data)

    def _heed(self, descriptor: int) -> None:
        """Handle the end of a child, or a message of a worker."""
        uuid = self._workers.take(descriptor)
        if uuid is None:
            # A worker may have two ready descriptors in one poll; the first one has removed it.
            if self._tidier.take(descriptor):
                return
            if descriptor in self._cleaners:
                self._reap(descriptor)
            elif descriptor in self._launchers:
                self._poll.unregister(descriptor)
                os.close(descriptor)
                os.waitpid(self._launchers.pop(descriptor), 0)
        elif uuid:
            self._send({"op": "ended", "uuid": uuid})

    def _answer(self, data: bytes) -> None:
        request: Message = {}
        try:
            request = rpc.decode(data, dict[str, Any])
            handlers = {
                "start": self._start, "signal": self._signal, "list": self._list,
                "clean": self._clean, "admit": self._admit, "resume": self._resume,
            }  # fmt: skip
            handlers[request["op"]](request)
        except (KeyError, LadingError, OSError) as error:
            text = (
                error.message
                if isinstance(error, LadingError)
                else f"{type(error).__name__}: {error}"
            )
            self._send({"op": "error", "id": request.get("id"), "error": " ".join(text.split())})

    def _send(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        rpc.send_packet(self.connection, message, descriptors)

    def _refuse(self, request: Message, uuid: str, error: LadingError | OSError) -> None:
        text = error.message if isinstance(error, LadingError) else str(error)
        error_line = " ".join(text.split())
        self._send({"op": "refused", "id": request.get("id"), "uuid": uuid, "error": error_line})

    # Requests.

    def _start(self, request: Message) -> None:
        given = request.get("assignment")
        uuid = str(given.get("container_uuid", "")) if isinstance(given, dict) else ""
        try:
            config = supervisor_config.convert(given)
            run_directory = Path(config.run_directory)
            if run_directory.parent != self.run_root or run_directory.name != uuid:
                raise LadingError(f"run_directory must be {self.run_root / uuid}")
            lock = _acquire_fresh(run_directory)
        except (LadingError, OSError) as error:
            self._refuse(request, uuid, error)
            return
        try:
            worker = self._workers.assign(uuid, rpc.encode(config), lock)
        finally:
            # The worker holds the lock by its own copy of the descriptor.
            journal.release_lock(lock)
        self._send(
            {"op": "started", "id": request.get("id"), "uuid": uuid, "pid": worker.pid},
            (worker.pidfd,),
        )

    def _signal(self, request: Message) -> None:
        number, directory = _SIGNALS[request["signal"]], self._directory(request)
        holder = _holder(directory)
        delivered = False
        # Between this look and the kill the holder may end; a worker serves another container only
        # after we assign it (worker_pool).
        if number is signal.SIGKILL:
            self._workers.forget(directory.name)
        if holder is not None:
            # The process has ended already.
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder.PID, number)
                delivered = True
        self._send(
            {
                "op": "signalled",
                "id": request.get("id"),
                "uuid": request["uuid"],
                "delivered": delivered,
            }
        )

    def _resume(self, request: Message) -> None:
        directory = self._directory(request)
        uuid = directory.name
        lock = -1
        try:
            if not directory.exists():
                self._workers.forget(uuid)
                raise LadingError("it has ended in good order")
            lock = journal.acquire_lock(directory)
            worker = self._workers.resume(uuid, lock)
            if worker is None:
                raise LadingError("its supervisor has left nothing by which it can go on")
        except (LadingError, OSError) as error:
            self._refuse(request, uuid, error)
            return
        finally:
            if lock >= 0:
                # The successor holds the lock by its own copy of the descriptor.
                journal.release_lock(lock)
        self._send(
            {"op": "resumed", "id": request.get("id"), "uuid": uuid, "pid": worker.pid},
            (worker.pidfd,),
        )

    def _list(self, request: Message) -> None:
        live, dead = self._look()
        try:
            for page, last in _parts(live):
                answer: Message = {"op": "listed", "id": request.get("id"), "more": not last}
                answer["live"] = [{"uuid": uuid, "pid": pid} for uuid, pid, _ in page]
                answer["dead"] = dead if last else []
                answer["outposts"] = rank_launcher.look(self.run_root) if last else []
                self._send(answer, tuple(pidfd for _, _, pidfd in page))
        finally:
            for _, _, pidfd in live:
                os.close(pidfd)

    def _look(self) -> tuple[list[tuple[str, int, int]], list[str]]:
        """Living supervisors as uuid, process id and open pidfd, and the uuids of dead ones."""
        live: list[tuple[str, int, int]] = []
        dead: list[str] = []
        names = (
            sorted(entry.name for entry in self.run_root.iterdir())
            if self.run_root.is_dir()
            else []
        )
        for uuid in names:
            if not ids.is_uuid(uuid, ids.Infix.CONTAINER):
                continue
            holder = _holder(self.run_root / uuid)
            pidfd = _open_process(holder.PID) if holder is not None else -1
            # The lock is free, or its process has ended without releasing: dead in either case.
            if holder is None or pidfd < 0:
                dead.append(uuid)
            else:
                live.append((uuid, holder.PID, pidfd))
        return live, dead

    def _clean(self, request: Message) -> None:
        directory = self._directory(request)
        self._workers.forget(directory.name)
        if (
            not directory.exists()
            and not rank_launcher.place(self.run_root, directory.name).exists()
        ):
            self._send_cleaned(request, "")
            return
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            pid = self._fork(lambda: _clean_one(directory, writing, engines=self.engines))
        finally:
            os.close(writing)
        cleaner = _Cleaner(pid, os.pidfd_open(pid), request, reading)
        self._cleaners[cleaner.pidfd] = cleaner
        self._poll.register(cleaner.pidfd, select.POLLIN)

    def _admit(self, request: Message) -> None:
        uuid = self._directory(request).name
        order = rank_launcher.LaunchOrder(
            uuid, int(request["ranks"]), str(request["certificate"]), str(request["key"])
        )
        directory = rank_launcher.place(self.run_root, uuid)
        try:
            lock = journal.acquire_lock(directory)
        except (LadingError, OSError) as error:
            self._refuse(request, uuid, error)
            return
        try:
            rank_launcher.write_down(directory, order)
            with rank_launcher.listen() as listener:
                pid = self._fork(lambda: rank_launcher.hold(order, listener, directory))
                port = listener.getsockname()[1]
            journal.write_holder(lock, journal.LockHolder(UUID=uuid, PID=pid))
        finally:
            # The child holds the lock by its own copy of the descriptor.
            journal.release_lock(lock)
        pidfd = os.pidfd_open(pid)
        self._launchers[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        address = rank_launcher.reachable_address()
        self._send(
            {
                "op": "admitted",
                "id": request.get("id"),
                "uuid": uuid,
                "address": address,
                "port": port,
            }
        )

    def _send_cleaned(self, request: Message, error: str) -> None:
        self._send(
            {"op": "cleaned", "id": request.get("id"), "uuid": request["uuid"], "error": error}
        )

    def _directory(self, request: Message) -> Path:
        uuid = str(request["uuid"])
        if not ids.is_uuid(uuid, ids.Infix.CONTAINER):
            raise LadingError(f"{uuid!r} is not the uuid of a container")
        return self.run_root / uuid

    # Children.

    def _hire(self, connection: socket.socket) -> int:
        return self._fork(lambda: work(connection, self.run_root, engines=self.engines))

    def _succeed(self, connection: socket.socket, descriptors: tuple[int, ...], lock: int) -> int:
        return self._fork(lambda: resume(connection, descriptors, lock, engines=self.engines))

    def _fork(self, do: Callable[[], int]) -> int:
        pid = os.fork()
        # The parent returns; everything below runs in the child.
        if pid:
            return pid
        # EX_SOFTWARE of sysexits.h, unless the work returns a code.
        code = 70
        try:
            # A session of its own: signals to the dispatcher's process group do not reach
            # containers.
            os.setsid()
            self.connection.close()
            os.close(self.turn)
            # Copies of these descriptors would keep other processes from seeing the end of the
            # parent.
            self._workers.leave()
            self._tidier.leave()
            for cleaner in self._cleaners.values():
                os.close(cleaner.pidfd)
                os.close(cleaner.reader)
            for pidfd in self._launchers:
                os.close(pidfd)
            code = do()
        # The child must never return into the parent's loop.
        except Exception:
            _logger.exception("a forked process failed")
        finally:
            logging.shutdown()
            # Without atexit handlers and buffers of the parent.
            os._exit(code)

    def _reap(self, pidfd: int) -> None:
        cleaner = self._cleaners.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(cleaner.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        with os.fdopen(cleaner.reader, "rb") as reader:
            said = reader.read().decode(errors="replace")
        self._send_cleaned(
            cleaner.request, said or (f"the cleaning process ended with {code}" if code else "")
        )


def main(arguments: list[str] | None = None) -> int:
    """Serve on the descriptor given on the command line."""
    parser = argparse.ArgumentParser(prog="lading.supervisor.process.forkserver")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--engine", default=AUTOMATIC)
    parser.add_argument("--log-level", default="INFO")
    parser.add_argument("--log-format", type=LogFormat, default=LogFormat.TEXT)
    options = parser.parse_args(arguments)
    # Supervisors are forked from this process, and log as it does.
    telemetry.configure(options.log_level, format=options.log_format)
    ignore_probes()
    os.set_inheritable(options.fd, False)
    options.run.mkdir(mode=0o700, parents=True, exist_ok=True)
    spread_directories(options.run)
    become_root_of_user(options.engine, options.run)
    engines = find_engines()
    engines.preload(options.engine)
    try:
        asyncio.run(warm_up(options.run))
    except OSError as error:
        # With a full disk the warm-up fails, but containers still have to be stopped and cleaned
        # up.
        _logger.warning("not warmed up, so containers start more slowly: %s", error)
    # Objects of the forkserver are moved out of reach of the collector, so that it does not write
    # to pages shared with children.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=options.fd) as connection:
        turn = _take_turn(options.run)
        Forkserver(connection, options.run.absolute(), engines.make, turn).serve()
    return 0


def _clean_one(directory: Path, writing: int, *, engines: EngineMaker) -> int:
    try:
        asyncio.run(_clean_all(directory, engines=engines))
    except (LadingError, OSError) as error:
        os.write(writing, describe(error).encode())
        return 1
    return 0


async def _clean_all(directory: Path, *, engines: EngineMaker) -> None:
    await clean(directory, engines=engines)
    await rank_launcher.clear(directory.parent, directory.name, engines=engines)


def _take_turn(run_root: Path) -> int:
    """Wait until no other forkserver serves this directory; the descriptor that locks it."""
    turn = os.open(run_root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    # Of an earlier dispatcher; it ends when it sees that its connection is closed.
    fcntl.flock(turn, fcntl.LOCK_EX)
    return turn


def _acquire_fresh(run_directory: Path) -> int:
    """Lock a run directory in which no supervisor began: files of an earlier run must not be used
    again.

    Raises Conflict, OSError.
    """
    lock = journal.acquire_lock(run_directory)
    if (run_directory / journal.NAME).exists():
        journal.release_lock(lock)
        raise Conflict(
            f"{run_directory.name}: an earlier supervisor left something; clean it first"
        )
    return lock


def _holder(directory: Path) -> journal.LockHolder | None:
    """The live supervisor of a run directory; None when there is none.

    A supervisor that was just forked may not have written its process id yet.
    """
    until = time.monotonic() + _START_TIME
    while journal.is_held(directory):
        holder = journal.read_holder(directory)
        if holder is not None:
            return holder
        if time.monotonic() > until:
            break
        # A millisecond: the child writes its process id first of all.
        time.sleep(0.001)
    return None


def _open_process(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _parts(live: list[tuple[str, int, int]]) -> Iterator[tuple[list[tuple[str, int, int]], bool]]:
    """The list in parts that fit one message each, and whether it is the last part."""
    for start in range(0, max(len(live), 1), _MOST_DESCRIPTORS):
        yield live[start : start + _MOST_DESCRIPTORS], start + _MOST_DESCRIPTORS >= len(live)


if __name__ == "__main__":
    # Programs in containers that are not root must be able to read the trees that are made for
    # them.
    os.umask(0o022)
    sys.exit(main())

"""`lading up`: the whole system on this machine, by one command.

One parent owns its children, a server (API and blocks) for each address and the dispatcher, and
starts a child again when it dies by itself. Containers belong to their supervisors: when these
processes are killed, containers continue, and the next start adopts them.

The parent also makes the TLS certificate of the data directory at its first start, and keeps disk
space for the database.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TextIO

import msgspec

from lading.core.containers.disk_space import Amount
from lading.core.errors import Unavailable
from lading.process.concurrency import cancel_all, finish_within
from lading.process.telemetry import event
from lading.supervisor.engines.choice import EngineChoice
from lading.wiring.database_room import keep_room
from lading.wiring.directory import DataDirectory, Secrets, ensure_certificate
from lading.wiring.engine import engine_search
from lading.wiring.listen_address import choose_port, claimed_address
from lading.wiring.process import READY, configure_logs, ended, private_files, say
from lading.wiring.serving_process import (
    ServingProcess,
    remove_record,
    this_process,
    write_record,
)

# Seconds until a child must be ready; includes opening the database and volumes.
_START_TIMEOUT = 60.0
# Seconds between TERM and KILL; longer than the 10 s that the server gives responses.
_STOP_TIMEOUT = 20.0
# Seconds to wait for the exit status of a child that has closed its pipe.
_LAST_BREATH = 5.0
# Bytes of a log file at a start of its service; a larger one is moved to `.log.1`.
_LOG_LIMIT = 16 << 20
# Seconds of life after which a child counts as healthy and its restart pause is reset.
_STEADY = 30.0
# Bytes of the readiness message; a longer message of failure is cut.
_LONGEST = 4096
# Seconds between two searches for an engine, as long as there is none.
_ENGINE_PAUSE = 5.0
# umask for files in the trees of containers: programs in a container that are not root must be able
# to read them.
_OF_CONTAINERS = 0o022
_logger = logging.getLogger("lading.up")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReady:
    """Facts to print once everything serves."""

    address: str
    data: Path
    seconds: float
    engine: EngineChoice | None = None
    """Engine that runs containers here; None if another machine runs them."""


def main(
    data: Path,
    listen: str,
    *,
    also: Sequence[str] = (),
    on_ready: Callable[[ServerReady], None],
    has_log_files: bool = True,
    until_idle: bool = False,
    may_move: bool = False,
) -> int:
    """Serve until TERM or INT; the exit code of the command. `also` are the addresses of further
    servers. Without `has_log_files` the services log to our standard error. `until_idle`: end
    after `Local.IdleShutdown`, too. `may_move`: another port of the same host will do for `listen`
    (`listen_address.claimed_address`).

    Written files are readable by their owner only.

    Raises Invalid for an address or directory that cannot be used, Conflict when the directory is
    served already, Unavailable when a process does not start.
    """
    directory = DataDirectory(data.absolute())
    with ExitStack() as claims:
        if may_move:
            listen = claims.enter_context(claimed_address(listen, last=directory.served_address()))
        listen, *further = [choose_port(address) for address in (listen, *also)]
        with private_files():
            directory.prepare(say=say)
            return _main(
                directory,
                (listen, *further),
                on_ready,
                has_log_files=has_log_files,
                until_idle=until_idle,
            )


def _main(
    directory: DataDirectory,
    addresses: Sequence[str],
    on_ready: Callable[[ServerReady], None],
    *,
    has_log_files: bool,
    until_idle: bool,
) -> int:
    listen, lock = addresses[0], directory.claim()
    try:
        host = listen.rpartition(":")[0].strip("[]")
        secrets = directory.secrets(entropy=os.urandom(400))
        config = directory.config(secrets, address=listen)
        containers = config.Containers
        logs = directory.root / "log" if has_log_files else None
        process = this_process(log=logs)
        write_record(directory, process)
        if not has_log_files:
            # With log files this process is somebody's command, which prints and logs nothing.
            configure_logs(config)
        kept = Amount(containers.DiskReserve, containers.DiskReserveFiles)
        ensure_certificate(directory.certificate, directory.key, host=host, now=datetime.now(UTC))
        with_dispatcher = containers.Dispatcher != "none"
        is_here = containers.Dispatcher == "local"
        search = engine_search(containers, directory=directory.root)
        return asyncio.run(
            _serve(
                directory,
                addresses,
                secrets,
                on_ready,
                with_dispatcher=with_dispatcher,
                kept=kept,
                choose=(lambda: search.choose(containers.RuntimeEngine)) if is_here else None,
                logs=logs,
                process=process,
                until_idle=until_idle,
            )
        )
    finally:
        remove_record(directory)
        # Released last: the children have ended.
        os.close(lock)


async def _serve(
    directory: DataDirectory,
    addresses: Sequence[str],
    secrets: Secrets,
    on_ready: Callable[[ServerReady], None],
    *,
    with_dispatcher: bool,
    kept: Amount,
    choose: Callable[[], EngineChoice] | None,
    logs: Path | None,
    process: ServingProcess,
    until_idle: bool,
) -> int:
    loop = asyncio.get_running_loop()
    started, stop = loop.time(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    services = [
        make_server(directory, number, address, logs=logs, until_idle=until_idle)
        for number, address in enumerate(addresses, 1)
    ]
    engine = choose() if choose is not None else None
    dispatcher = _service(
        directory, "dispatcher", "dispatcher", addresses[0], logs=logs, umask=_OF_CONTAINERS
    )
    # Without an engine data is served, and requests stay queued.
    is_waiting = engine is not None and not engine.name
    if with_dispatcher and not is_waiting:
        services.append(dispatcher)
    try:
        if not await start_all(services, stop):
            return 0
        # Clients get the address only when the server answers.
        directory.write_env(secrets, address=addresses[0])
        write_record(directory, msgspec.structs.replace(process, address=addresses[0]))
        on_ready(
            ServerReady(
                address=addresses[0],
                data=directory.root,
                seconds=loop.time() - started,
                engine=engine,
            )
        )
        # From here on a child that ends is started again, until the keepers are cancelled.
        keepers = [asyncio.create_task(service.keep(), name=service.name) for service in services]
        keepers.append(
            asyncio.create_task(keep_room(directory.database, kept), name="room for records")
        )
        if choose is not None and is_waiting:
            late = _keep_later(dispatcher, choose)
            keepers.append(asyncio.create_task(late, name="engine"))
            services.append(dispatcher)
        await stop.wait()
        # From here on nothing is served: a command that starts the site waits for the end of this
        # process, and does not call its server.
        with suppress(OSError):
            write_record(directory, process)
        # Keepers end by cancellation; their results mean nothing.
        await cancel_all(*keepers)
    except BaseExceptionGroup as failures:
        # The first failure is the cause: the task group has cancelled the other starts.
        raise failures.exceptions[0] from None
    finally:
        # The dispatcher, last in the list, stops before the servers that it calls.
        for service in reversed(services):
            await service.stop()
    return 0


async def _keep_later(dispatcher: ChildService, choose: Callable[[], EngineChoice]) -> None:
    """Start the dispatcher once there is an engine, and keep it."""
    while True:
        found = await asyncio.to_thread(choose)
        if found.name:
            break
        await asyncio.sleep(_ENGINE_PAUSE)
    say(f"engine: {found}; containers run from now on")
    if found.warning:
        say(found.warning)
    await dispatcher.keep()


async def start_all(services: Sequence[ChildService], stop: asyncio.Event) -> bool:
    """Start all; return False when stopped before they served. Raises Unavailable for a failed
    start.
    """

    async def start() -> None:
        async with asyncio.TaskGroup() as starting:
            for service in services:
                starting.create_task(service.start_though_killed())

    # Until all children are ready, or the user stops the program.
    starting, stopping = asyncio.create_task(start()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return False
        await starting
        return True
    finally:
        await cancel_all(starting, stopping)


def make_server(
    directory: DataDirectory,
    number: int,
    address: str,
    *,
    logs: Path | None,
    until_idle: bool = False,
) -> ChildService:
    """Make the service of server `number`: the first has the local socket of the directory, each
    further one its own.
    """
    if number == 1:
        more = ("--until-idle",) if until_idle else ()
        return _service(directory, "server", "server", address, *more, logs=logs)
    return _service(
        directory,
        f"server-{number}",
        "server",
        address,
        "--socket",
        str(directory.root / f"api-{number}.sock"),
        logs=logs,
    )


def _service(
    directory: DataDirectory,
    name: str,
    module: str,
    address: str,
    *more: str,
    logs: Path | None,
    umask: int = -1,
) -> ChildService:
    command = [
        sys.executable,
        "-m",
        f"lading.wiring.{module}",
        "--data",
        str(directory.root),
        "--listen",
        address,
    ]
    return ChildService(name, [*command, "--parent", str(os.getpid()), *more], logs, umask=umask)


class Killed(Unavailable):
    """A child was killed by a signal before it was ready."""


class ChildService:
    """A child process: starts, watches, restarts and stops it."""

    def __init__(
        self,
        name: str,
        command: list[str],
        logs: Path | None,
        *,
        umask: int = -1,
        start_timeout: float = _START_TIMEOUT,
    ) -> None:
        """`logs`: the directory of its log file; None for our standard error. `umask` of the child;
        -1 inherits. It has `start_timeout` seconds to become ready."""
        self._start_timeout = start_timeout
        self.name = name
        self._umask = umask
        self._command = command
        self._log = logs / f"{name}.log" if logs is not None else None
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the child and wait until it is ready. Raises Unavailable with its last message."""
        read, write = os.pipe()
        try:
            began = self._spawn(write)
        finally:
            # The child has its copy; with this one closed, the end of the child ends the pipe.
            os.close(write)
        try:
            ready = await finish_within(_read_line(read), self._start_timeout)
        except TimeoutError:
            await self.stop()
            said = self._last_words(began) or "it reported nothing; is the machine overloaded?"
            late = f"the {self.name} did not start within {self._start_timeout:.0f} s"
            raise Unavailable(f"{late}: {said} ({self._place})") from None
        finally:
            os.close(read)
        # An empty line: the child ended without a message.
        if ready != READY:
            code = await self._code()
            await self.stop()
            if not ready and code < 0:
                raise Killed(
                    f"the {self.name} was killed by signal {-code} while it started ({self._place})"
                )
            said = ready.decode(errors="replace").strip() or self._last_words(began) or "no message"
            raise Unavailable(f"the {self.name} did not start: {said} ({self._place})")

    async def start_though_killed(self) -> None:
        """Like `start`, repeated while signals kill the child. Raises Unavailable with a message of
        the child.
        """
        pause = 0.0
        while True:
            try:
                # A signal from outside is no fault of the configuration: the start is repeated.
                return await self.start()
            except Killed as error:
                event(_logger, "service not started", service=self.name, error=error)
            await asyncio.sleep(pause)
            pause = _longer(pause)

    async def _code(self) -> int:
        """The exit code of a child that has closed its pipe; 0 if it is still alive, negative for a
        signal.
        """
        if self._process is None:
            return 0
        with suppress(TimeoutError):
            # The pipe closes a moment before the process ends.
            await finish_within(ended(self._process.pid), _LAST_BREATH)
        return self._process.poll() or 0

    async def keep(self) -> None:
        """Restart the child whenever it ends, first at once, then with growing pauses."""
        loop, pause = asyncio.get_running_loop(), 0.0
        while True:
            began = loop.time()
            if self._process is not None:
                await ended(self._process.pid)
                event(_logger, "service ended", service=self.name, code=self._process.wait())
            # A child that lived long has not failed at start.
            if loop.time() - began > _STEADY:
                pause = 0.0
            await asyncio.sleep(pause)
            pause = _longer(pause)
            try:
                await self.start()
            except Unavailable as error:
                event(_logger, "service not started", service=self.name, error=error)

    async def stop(self) -> None:
        """Stop the child: TERM, then KILL after a time limit."""
        # Taken first, so that a second call does nothing.
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await finish_within(ended(process.pid), _STOP_TIMEOUT)
        except TimeoutError:
            process.kill()
        process.wait()

    def _spawn(self, ready: int) -> int:
        """Start the process; return the offset of its part of the log."""
        if self._log is None:
            # Standard output is for our own lines.
            self._launch(ready, stdout=sys.stderr, stderr=None)
            return 0
        with self._open_log(self._log) as log:
            began = log.tell()
            self._launch(ready, stdout=log, stderr=log)
        return began

    def _launch(self, ready: int, *, stdout: IO[bytes] | TextIO, stderr: IO[bytes] | None) -> None:
        self._process = subprocess.Popen(
            [*self._command, "--ready-fd", str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(ready,),
            umask=self._umask,
        )

    @property
    def _place(self) -> str:
        """Description of its log, for messages."""
        return f"log: {self._log}" if self._log is not None else "log: above"

    def _open_log(self, path: Path) -> IO[bytes]:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if path.exists() and path.stat().st_size > _LOG_LIMIT:
            # One earlier log is kept, so logs of a service have at most twice this size and one
            # run.
            path.replace(path.with_suffix(".log.1"))
        return path.open("ab")

    def _last_words(self, began: int) -> str:
        if self._log is None:
            return ""
        with self._log.open("rb") as log:
            log.seek(began)
            # The last part is enough for one message.
            lines = log.read()[-4096:].decode(errors="replace").split("\n")
        # A traceback of a group of errors is framed by these characters.
        messages = [message for line in lines if (message := line.strip(" |+-"))]
        return messages[-1] if messages else ""


def _longer(pause: float) -> float:
    """The next pause after a pause in seconds."""
    # Starts at 50 ms, doubles, and stays at 2 s.
    return min(2.0, pause * 2 + 0.05)


async def _read_line(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
        return os.read(descriptor, _LONGEST)
    finally:
        loop.remove_reader(descriptor)

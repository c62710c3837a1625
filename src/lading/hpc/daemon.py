"""`python -m lading.hpc.daemon [--port N] [--root DIR]`: the daemon of one container of a cluster.

It uses the standard library alone. Certificate, key and authorization come with the environment:
TLS_PUBLIC_CERT, TLS_PRIVATE_KEY, AUTHORIZATION; without them the values of the previous start are
used. The port may come as HPCAAS_PORT. HPCAAS_ALLOW_HTTP=1 allows results to be sent unencrypted.
All other settings come through HTTPS. Source: docs/spec/hpc-daemon, section Start and identity.

The container is in FSError while a shared file system does not answer. A call to a network file
system without a server blocks without limit. So each check runs in a thread of its own, with a time
limit for its caller; while that thread is blocked, no other is started.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import pwd
import signal
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lading.core.errors import Invalid, LadingError
from lading.core.hpc.daemon_document import LOGS
from lading.core.hpc.daemon_states import CodeStatus, ContainerStatus, ResultStatus
from lading.hpc import delivery, processes
from lading.hpc.code import Code
from lading.hpc.daemon_memory import DaemonMemory, load
from lading.hpc.endpoints import Endpoints
from lading.hpc.layout import (
    FILES,
    PRIVATE,
    DaemonLayout,
    forget_environment,
    keep_identity,
    read_identity,
    trim_log,
    write,
)
from lading.hpc.notices import Notices
from lading.hpc.progress import Progress
from lading.hpc.service import DaemonService

# HTTPS (RFC 9110, 4.2.2).
PORT = 443
# Seconds between two looks at the size of the output.
_TRIM_PERIOD = 30.0
_logger = logging.getLogger("lading.hpc")
# Seconds between two looks, and until a file system counts as not responding.
PERIOD = 5.0
PATIENCE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions:
    """Options of the daemon. Port 0 is any free port."""

    certificate: str
    key: str
    authorization: str
    port: int = PORT
    host: str = ""
    root: Path = Path("/")
    home: str = ""
    allow_http: bool = False


def read_options(arguments: Sequence[str], environment: Mapping[str, str]) -> DaemonOptions:
    """The options from the command line and the environment. Raises Invalid for a missing one or an
    invalid port.
    """
    parser = argparse.ArgumentParser(
        prog="lading hpc daemon", description="The daemon of an HPC container."
    )
    parser.add_argument(
        "--port", default=environment.get("HPCAAS_PORT", str(PORT)), help="where to listen (443)"
    )
    parser.add_argument("--host", default="", help="the address to listen on (all)")
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="the directory that its paths are below (/)"
    )
    options = parser.parse_args(arguments)
    root, home = options.root.resolve(), find_home(os.geteuid(), environment)
    identity = read_identity(DaemonLayout(root, home).own, environment)
    if not options.port.isdigit() or int(options.port) > 65535:
        raise Invalid(f"port {options.port!r} is not a number up to 65535")
    return DaemonOptions(
        certificate=identity["TLS_PUBLIC_CERT"],
        key=identity["TLS_PRIVATE_KEY"],
        authorization=identity["AUTHORIZATION"],
        port=int(options.port),
        host=options.host,
        root=root,
        home=home,
        allow_http=environment.get("HPCAAS_ALLOW_HTTP") == "1",
    )


def find_home(uid: int, environment: Mapping[str, str]) -> str:
    """The home directory of the user: the one in /etc/passwd, which sshd takes too, else HOME.

    Raises Invalid without either.
    """
    try:
        home = pwd.getpwuid(uid).pw_dir
    except KeyError:
        home = environment.get("HOME", "")
    if not home.startswith("/"):
        raise Invalid(f"user {uid} has no home directory: name one in /etc/passwd or in HOME")
    return home


class HpcDaemon:
    """One daemon: open, then wait for its end."""

    def __init__(self, options: DaemonOptions, environment: Mapping[str, str]) -> None:
        self._options = options
        self.layout = DaemonLayout(options.root, options.home)
        self.layout.make()
        self.record: DaemonMemory = load(
            self.layout.own / "state.json", allow_http=options.allow_http
        )
        self.code = Code(self.layout, self.record, on_end=self._code_ended)
        self.notices = Notices()
        self._progress = Progress(self.layout, tell=self.notices.tell)
        self.endpoints = Endpoints(
            self.layout,
            self.record,
            self.code,
            notices=self.notices,
            deliver=self.deliver,
            inherited=environment,
            percent=self._progress.percent,
        )
        self._service = DaemonService(
            self.endpoints.answer, authorization=options.authorization, scratch=self.layout.own
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._again = False

    async def open(self) -> int:
        """Load the record, follow code that runs already, and listen; return the port. Raises
        OSError, ssl.SSLError.
        """
        # Before any code runs: processes that outlive their parents become children of the daemon,
        # so that their end is seen.
        processes.adopt_orphans()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self.code.reap)
        # First the port: a second daemon ends here, before it follows the code of the first.
        port = await self._service.open(
            self._options.host, self._options.port, context=self._context()
        )
        for name in LOGS:
            self.code.log(name).touch(mode=PRIVATE)
        if not self.notices.open(*map(self.code.log, LOGS), self.layout.progress.parent):
            _logger.warning(
                "no notices of files that change; who waits for news gets them once a second"
            )
        try:
            await self._progress.open()
        except OSError as error:
            _logger.warning("no socket for how far the code is, only the file: %s", error)
        self.code.reattach()
        if self.record.result is ResultStatus.UPLOADING:
            # The daemon before this one was interrupted while it did so.
            self._spawn(self._deliver())
        self._spawn(self.code.look_outside())
        self._spawn(self._trim())
        self._spawn(watch_file_systems(self._watched, self._judge, sleep=self._pause))
        return port

    async def close(self) -> None:
        """Stop listening and following; the code continues."""
        await self._service.close()
        self._progress.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.code.close()
        self.notices.close()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)

    def _code_ended(self) -> None:
        # Code that others start may end again while its first results are still on their way.
        if self.record.result is ResultStatus.UPLOADING:
            self._again = True
        else:
            self.deliver()

    def deliver(self) -> None:
        """Start the delivery of the results. Raises IllegalTransition while one is under way."""
        self.record.deliver(ResultStatus.UPLOADING)
        self._spawn(self._deliver())

    async def _deliver(self) -> None:
        record = self.record
        try:
            record.results = await delivery.Delivery(self.layout, record.settings).run()
        except (LadingError, OSError) as error:
            reason = delivery.describe(error)
            record.results = [{"error": reason}]
            _logger.error("results not delivered: %s", reason)
            record.deliver(ResultStatus.ERROR)
        else:
            record.deliver(ResultStatus.STOPPED)
        # Once for all ends meanwhile: a delivery sends everything that is there.
        if self._again:
            self._again = False
            self.deliver()

    def _context(self) -> ssl.SSLContext:
        own, options = self.layout.own, self._options
        values = (options.certificate, options.key, options.authorization)
        keep_identity(own, dict(zip(FILES, values, strict=True)))
        certificate, key = own / FILES["TLS_PUBLIC_CERT"], own / FILES["TLS_PRIVATE_KEY"]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        return context

    def _watched(self) -> tuple[Path, ...]:
        return tuple(self.layout.inside(path) for path in self.record.settings.watched)

    async def _pause(self, seconds: float) -> None:
        # Nothing to watch: the watch sleeps until the settings change.
        if self.record.settings.watched:
            await asyncio.sleep(seconds)
        else:
            await self.record.changed()

    def _judge(self, fault: str) -> None:
        if fault and self.record.container is ContainerStatus.RUNNING:
            _logger.error("%s", fault)
        status = ContainerStatus.FS_ERROR if fault else ContainerStatus.RUNNING
        self.record.judge(status, fault=fault)

    async def _trim(self) -> None:
        while True:
            if self.record.code is not CodeStatus.RUNNING:
                await self.record.changed()
            else:
                await asyncio.sleep(_TRIM_PERIOD)
                for name in LOGS:
                    # The next round tries again.
                    with contextlib.suppress(OSError):
                        trim_log(self.code.log(name))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def serve(options: DaemonOptions, environment: Mapping[str, str]) -> None:
    """Serve until TERM or INT. Raises OSError, ssl.SSLError when it cannot."""
    daemon = HpcDaemon(options, environment)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    port = await daemon.open()
    _logger.info("listening on port %d", port)
    write(daemon.layout.own / "daemon_has_started", f"{os.getpid()} {port}\n", mode=PRIVATE)
    # Imported objects live as long as the daemon; the garbage collector need not look at them.
    gc.collect()
    gc.freeze()
    try:
        await stop.wait()
    finally:
        await daemon.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; its exit code."""
    environment = dict(os.environ)
    forget_environment()
    try:
        # From the copy: the identity is taken out of the environment first, which all processes of
        # the container could read in /proc.
        options = read_options(sys.argv[1:] if arguments is None else arguments, environment)
        own = DaemonLayout(options.root, options.home).own
        own.mkdir(parents=True, exist_ok=True)
        # Other users must not read the daemon's log: it has the names of uploads and their
        # addresses.
        os.umask(0o077)
        logging.basicConfig(
            filename=own / "log.txt",
            level=logging.INFO,
            format="%(asctime)s %(levelname)s %(message)s",
        )
        asyncio.run(serve(options, environment))
    except LadingError as error:
        sys.stderr.write(f"lading: {error.message}\n")
        return 2
    except (OSError, ssl.SSLError) as error:
        sys.stderr.write(f"lading: the daemon cannot serve: {error}\n")
        return 1
    return 0


def _first_entry(path: Path) -> object:
    """Read the first entry of a directory: this needs an answer of the file system, and takes
    equally long for any number of files. Raises OSError.
    """
    with os.scandir(path) as entries:
        return next(entries, None)


@dataclass(slots=True)
class FileSystemWatch:
    """Checks one directory. `ask` blocks, and raises OSError when the file system has failed."""

    path: Path
    ask: Callable[[Path], object] = _first_entry
    patience: float = PATIENCE
    _asking: threading.Thread | None = None
    _fault: str = ""

    async def fault(self) -> str:
        """Fault of the file system; "" when it answers."""
        # The thread of an earlier look still hangs in the kernel; another one would hang too.
        if self._asking is not None and self._asking.is_alive():
            return f"{self.path} does not answer"
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()
        # A thread of its own that nothing waits for: a worker of the loop's pool would be lost, and
        # would hold up the end of the process.
        self._asking = threading.Thread(target=self._try, args=(loop, answered), daemon=True)
        self._asking.start()
        try:
            async with asyncio.timeout(self.patience):
                await answered.wait()
        except TimeoutError:
            return f"{self.path} does not answer"
        return self._fault

    def _try(self, loop: asyncio.AbstractEventLoop, answered: asyncio.Event) -> None:
        try:
            self.ask(self.path)
            self._fault = ""
        except OSError as error:
            self._fault = f"{self.path}: {error.strerror}"
        # The answer may come after the end of the daemon.
        if not loop.is_closed():
            loop.call_soon_threadsafe(answered.set)


async def watch_file_systems(
    paths: Callable[[], tuple[Path, ...]],
    tell: Callable[[str], None],
    *,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Report the fault of the first failing file system in each period, "" without faults; until
    cancelled.
    """
    watches: dict[Path, FileSystemWatch] = {}
    while True:
        wanted = paths()
        faults = [await watches.setdefault(path, FileSystemWatch(path)).fault() for path in wanted]
        tell(next((fault for fault in faults if fault), ""))
        await sleep(PERIOD)


if __name__ == "__main__":
    sys.exit(main())

"""One child process of `lading up`: it is started, watched, started again and stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, TextIO

from lading.core.errors import Unavailable
from lading.process.concurrency import finish_within
from lading.process.telemetry import event
from lading.wiring.directory import DataDirectory
from lading.wiring.process import READY, ended

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
_logger = logging.getLogger("lading.up")


def child_service(
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
            last_words = (
                self._last_words(began) or "it reported nothing; is the machine overloaded?"
            )
            late = f"the {self.name} did not start within {self._start_timeout:.0f} s"
            raise Unavailable(f"{late}: {last_words} ({self._place})") from None
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
            last_words = (
                ready.decode(errors="replace").strip() or self._last_words(began) or "no message"
            )
            raise Unavailable(f"the {self.name} did not start: {last_words} ({self._place})")

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

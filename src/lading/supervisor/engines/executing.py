"""Commands beside the container's own: as child processes, and by `crun exec`.

A child process has pipes, or a terminal that a runtime such as crun makes inside the container; the
runtime passes the controlling end over a Unix socket.

crun gets the configuration of the container's own command with other arguments: the same
capabilities and system calls, no new privileges, the container's environment and no other. It is
passed in a file, because command lines are visible to others on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import socket
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lading.core import images
from lading.core.errors import ExecutionError, Failure
from lading.process.concurrency import cancel_all, finish_within
from lading.supervisor.engines import Exec, Execution, Size
from lading.supervisor.engines.accounts import account_of
from lading.supervisor.engines.crun import null
from lading.supervisor.engines.owner_namespace import admit

# Bytes read at a time.
_CHUNK = 1 << 16
# Seconds for the runtime to pass the terminal.
_PATIENCE = 10.0
# Seconds between HUP and KILL.
_GRACE = 2.0
# Seconds for one crun command.
_START_PATIENCE = 20.0
# Seconds between two looks at the name of a process.
_LOOK_TIME = 0.005
# A shell that waits for its input to end.
_WAIT = ["/bin/sh", "-c", "read line"]


class ProcessExecution:
    """Implements `engines.Execution`. `process` is awaited; `target()` is the process that gets
    signals.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        target: Callable[[], int | None],
        terminal: int = -1,
    ) -> None:
        self._process = process
        self._target = target
        self._terminal = terminal
        # A few pieces of output: the command then blocks until the client reads.
        self._output: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(4)
        self._hung_up = False
        self._pumps = [
            asyncio.create_task(work, name="output of a session") for work in self._sources()
        ]
        self._gathering = asyncio.create_task(self._gather(), name="end of a session's output")

    async def write(self, data: bytes) -> None:
        """Give it input."""
        # The command may have closed its input.
        with contextlib.suppress(OSError, RuntimeError):
            if self._terminal >= 0:
                await self._type(data)
            elif (stdin := self._process.stdin) is not None:
                if data:
                    stdin.write(data)
                    await stdin.drain()
                else:
                    stdin.close()

    async def read(self) -> tuple[int, bytes]:
        """Its next output: the descriptor's number and the bytes."""
        return await self._output.get()

    async def resize(self, size: Size) -> None:
        """Set the size of the terminal."""
        if self._terminal >= 0:
            set_size(self._terminal, size)

    async def signal(self, number: int) -> None:
        """Send it a signal."""
        pid = self._target()
        if pid is not None:
            # The process has ended already.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    async def wait(self) -> int:
        """Its exit code."""
        code = await self._process.wait()
        # A negative code is a signal (subprocess); a shell shows 128 + signal.
        return code if code >= 0 else 128 - code

    async def close(self) -> None:
        """Hang up and wait for its end."""
        if self._hung_up:
            return
        self._hung_up = True
        await cancel_all(*self._pumps, self._gathering)
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.returncode is None:
            await self.signal(signal.SIGHUP)
            # The command did not end in time and is killed below.
            with contextlib.suppress(TimeoutError):
                await finish_within(self._process.wait(), _GRACE)
        if self._process.returncode is None:
            await self.signal(signal.SIGKILL)
            # The process has ended meanwhile.
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _sources(self) -> list[asyncio._CoroutineLike[None]]:
        if self._terminal >= 0:
            return [self._watch_terminal()]
        return [
            self._pump(number, stream)
            for number, stream in ((1, self._process.stdout), (2, self._process.stderr))
            if stream is not None
        ]

    async def _gather(self) -> None:
        await asyncio.gather(*self._pumps, return_exceptions=True)
        # After both streams: the end of output.
        await self._output.put((1, b""))

    async def _pump(self, number: int, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_CHUNK):
            await self._output.put((number, data))

    async def _watch_terminal(self) -> None:
        loop, terminal = asyncio.get_running_loop(), self._terminal
        while True:
            readable = asyncio.Event()
            loop.add_reader(terminal, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(terminal)
            try:
                data = os.read(terminal, _CHUNK)
            except BlockingIOError:
                # Woken without data.
                continue
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                # Linux returns EIO when no process has the other end open.
                return
            if not data:
                return
            await self._output.put((1, data))

    # A copy of the descriptor, since `close` may close the original meanwhile.
    async def _type(self, data: bytes) -> None:
        loop, terminal = asyncio.get_running_loop(), os.dup(self._terminal)
        try:
            while data:
                try:
                    data = data[os.write(terminal, data) :]
                except BlockingIOError:
                    writable = asyncio.Event()
                    loop.add_writer(terminal, writable.set)
                    try:
                        await writable.wait()
                    finally:
                        loop.remove_writer(terminal)
        finally:
            os.close(terminal)


async def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    target: Callable[[], int | None],
    console: Console | None = None,
    executable: str | None = None,
    descriptors: Sequence[int] = (),
) -> ProcessExecution:
    """Start the program of a runtime that starts the command; it inherits `descriptors`. Raises
    ExecutionError.
    """
    stream = subprocess.DEVNULL if console is not None else subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            executable=executable,
            stdin=stream,
            stdout=stream,
            stderr=subprocess.PIPE,
            env=dict(environment),
            pass_fds=descriptors,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise ExecutionError(
            f"{command[0]} cannot be run: {error.strerror}", Failure.NODE
        ) from error
    if console is None:
        return ProcessExecution(process, target=target)
    return ProcessExecution(process, target=target, terminal=await console.receive(process))


class Console:
    """A Unix socket on which a runtime passes the controlling end of a terminal."""

    def __init__(self, directory: Path, size: Size) -> None:
        self._size = size
        self._path = directory / f"console-{os.urandom(6).hex()}"
        # The path of a socket has at most 107 bytes (unix(7)); the directory's may be longer.
        self._directory = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.bind(self.path)
        self._socket.listen(1)
        self._socket.setblocking(False)

    @property
    def path(self) -> str:
        """Path for the runtime."""
        return f"/proc/{os.getpid()}/fd/{self._directory}/{self._path.name}"

    async def receive(self, process: asyncio.subprocess.Process) -> int:
        """Receive the descriptor. Raises ExecutionError with the runtime's message when it ends
        without one.
        """
        loop = asyncio.get_running_loop()
        coming, ending = (
            asyncio.create_task(loop.sock_accept(self._socket)),
            asyncio.create_task(process.wait()),
        )
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.wait((coming, ending), return_when=asyncio.FIRST_COMPLETED)
                terminals = await self._received(coming.result()[0]) if coming.done() else []
                if not terminals:
                    said = await process.stderr.read(_CHUNK) if process.stderr is not None else b""
                    raise start_failure(said)
        except (TimeoutError, ValueError) as error:
            process.kill()
            raise ExecutionError("the runtime made no terminal", Failure.NODE) from error
        finally:
            coming.cancel()
            ending.cancel()
            await asyncio.gather(coming, ending, return_exceptions=True)
        terminal = terminals[0]
        os.set_blocking(terminal, False)
        set_size(terminal, self._size)
        return terminal

    @staticmethod
    async def _received(connection: socket.socket) -> list[int]:
        """The descriptor that the runtime passes; none when it ends without one. Raises ValueError
        for anything else.
        """
        with connection:
            connection.setblocking(True)
            data, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, connection, 4096, 1)
        if data and not descriptors:
            raise ValueError("the runtime sent something else")
        return descriptors

    def close(self) -> None:
        """Remove the socket."""
        self._socket.close()
        os.close(self._directory)
        self._path.unlink(missing_ok=True)


def start_failure(message: bytes) -> ExecutionError:
    """The error for a message of a runtime that could not start a command."""
    reason = " ".join(message.decode(errors="replace").split())
    return ExecutionError(
        f"the command cannot be started: {reason or 'no reason was given'}", Failure.USER
    )


def set_size(terminal: int, size: Size) -> None:
    """Set the size of a terminal."""
    # Two bytes each in struct winsize (ioctl_tty(2)).
    rows, columns = (max(1, min(length, 0xFFFF)) for length in (size.rows, size.columns))
    # The terminal may be closed already.
    with contextlib.suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def execute(order: Exec, uuid: str, bundle: Path, *, command: Sequence[str]) -> Execution:
    """Run it. `command` starts crun up to its global options. Raises ExecutionError."""
    name = os.urandom(6).hex()
    process_file, number = bundle / f"exec-{name}.json", bundle / f"exec-{name}.pid"
    try:
        config = msgspec.json.decode((bundle / "config.json").read_bytes())
        process_file.write_bytes(msgspec.json.encode(make_process(order, config)))
        console = Console(bundle, order.terminal) if order.terminal is not None else None
    except OSError as error:
        raise ExecutionError(f"{uuid}: cannot be entered: {error}", Failure.NODE) from error
    more = ["--console-socket", console.path] if console is not None else []
    try:
        return await spawn(
            [
                *command,
                "exec",
                "--pid-file",
                str(number),
                "--process",
                str(process_file),
                *more,
                uuid,
            ],
            environment={"PATH": images.DEFAULT_PATH},
            target=lambda: read_number(number),
            console=console,
        )
    finally:
        if console is not None:
            console.close()


async def hold(uuid: str, bundle: Path, *, command: Sequence[str], init: Sequence[str] = ()) -> int:
    """Make the container of a bundle once more, without its gate, and leave it there. Raises
    ExecutionError.

    A container with a user namespace can be entered only while a program of it runs: a shell that
    waits until the returned descriptor is closed, started by the first process `init`. In other
    cases none is started, and -1 is returned.
    """
    reading, writing = -1, -1
    try:
        config = msgspec.json.decode((bundle / "config.json").read_bytes())
        # The gate must not wait again.
        config.pop("hooks", None)
        if "uidMappings" in config.get("linux", ()):
            config["process"]["args"] = [*init, *_WAIT]
            reading, writing = os.pipe2(os.O_CLOEXEC)
        (bundle / "config.json").write_bytes(msgspec.json.encode(config))
        await _run(command, "create", "--bundle", str(bundle), uuid, stdin=reading)
        if reading >= 0:
            await _run(command, "start", uuid)
            await _started(uuid, bundle)
    except BaseException as error:
        if writing >= 0:
            os.close(writing)
        if not isinstance(error, OSError | TimeoutError):
            raise
        raise ExecutionError(f"{uuid}: cannot be kept: {error}", Failure.NODE) from error
    finally:
        if reading >= 0:
            os.close(reading)
    return writing


async def _run(command: Sequence[str], verb: str, *arguments: str, stdin: int = -1) -> None:
    """Run a crun command. Raises OSError."""
    nothing = null()
    process = await asyncio.create_subprocess_exec(
        *command,
        verb,
        *arguments,
        stdin=stdin if stdin >= 0 else nothing,
        stdout=nothing,
        stderr=nothing,
        env={"PATH": images.DEFAULT_PATH},
        cwd="/",
    )
    code = await finish_within(process.wait(), _START_PATIENCE)
    if code != 0:
        raise OSError(f"crun {verb} ended with {code}; has the image a /bin/sh?")


async def _started(uuid: str, bundle: Path) -> None:
    """Wait until crun has become the shell: only then can the container be entered. Raises OSError,
    TimeoutError.
    """
    status = bundle.parent / "crun" / uuid / "status"
    pid = msgspec.json.decode(status.read_bytes())["pid"]
    async with asyncio.timeout(_START_PATIENCE):
        while _name(pid).startswith("crun"):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(_LOOK_TIME)


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


def make_process(order: Exec, config: dict[str, Any]) -> dict[str, Any]:
    """Process of `crun exec`, made from the container's. Raises ExecutionError for an unknown
    user.
    """
    process: dict[str, Any] = config["process"]
    names = {name for name, _ in order.environment}
    inherited = [variable for variable in process["env"] if variable.partition("=")[0] not in names]
    process |= {
        "args": list(order.command),
        "env": [*inherited, *(f"{name}={value}" for name, value in order.environment)],
        "terminal": order.terminal is not None,
    }
    if order.user:
        account = account_of(order.user, Path(config["root"]["path"]))
        if ids := ids_of_user(config):
            account, _ = admit(account, ids)
        process["user"] = {
            "uid": account.uid,
            "gid": account.gid,
            "additionalGids": list(account.groups),
        }
    return process


def ids_of_user(config: Mapping[str, Any]) -> int:
    """Number of ids of an ordinary user's container, whose root is that of the namespace around it;
    0 for any other container.
    """
    extents = config.get("linux", {}).get("uidMappings", ())
    is_of_user = bool(extents) and extents[0]["hostID"] == 0
    return sum(row["size"] for row in extents) if is_of_user else 0


def read_number(path: Path) -> int | None:
    """The number of a command's process, once the runtime has written it."""
    # The runtime has not written the number yet.
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None

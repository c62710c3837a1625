"""Starts containers by `lading-start`, a program of this package, in the place of crun.

The program is compiled when the package is built (setup.py). Where there was no compiler, or the
kernel is older than Linux 5.12, the native engine uses crun (`is_available`). crun is also used for
gangs, whose conductor starts it, and for containers of NVIDIA's hook.

    <run directory>/container.jsonl   lines of JSON: `pid`, the first process on this machine;
                                      `ready`, when it can be entered; `code`, of the command
    <run directory>/held.jsonl        the same of the container that is kept after its command
    <run directory>/crun.log          the fault, when the command was not started

The files stay when the supervisor is killed. They are locked while the container lives, so that
another process knows whether the numbers are its.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.process.concurrency import finish_within
from lading.supervisor import linux
from lading.supervisor.engines import ContainerSpec, Exec, Execution, stopping
from lading.supervisor.engines.crun import SealedProgram, guarded, null
from lading.supervisor.engines.seccomp import make_program
from lading.supervisor.engines.user_namespace import UserNamespace
from lading.supervisor.limits.counters import descendants
from lading.supervisor.linux import is_locked
from lading.supervisor.starter.plan import MARK, Entry, Gate, container_plan, entry_plan

PROGRAM = Path(__file__).with_name("lading-start")
NAME = "lading-start"
# Seconds for the program to answer, or to make a container.
_PATIENCE = 20.0
# Seconds between two looks at a status file.
_LOOK_TIME = 0.005
_STATUS, _HELD = "container.jsonl", "held.jsonl"
_sealed = SealedProgram(str(PROGRAM))


def warm() -> None:
    """Prepare for all forks of this process: the program in sealed memory, and its trial."""
    if is_available():
        _sealed.seal()


# The program and the kernel of a process stay; forks inherit the result.
@functools.cache
def is_available() -> bool:
    """Whether the program was built and can run on this kernel."""
    return not fault()


def fault() -> str:
    """Reason why the program cannot be used here, or ""."""
    if not os.access(PROGRAM, os.X_OK):
        return f"{NAME} was not built: there was no C compiler when lading was installed"
    if not make_program(os.uname().machine):
        return f"{NAME} needs libseccomp, which compiles its filter of system calls"
    try:
        asked = subprocess.run(
            [PROGRAM, "check"], capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{NAME} cannot be run: {error}"
    if asked.returncode:
        return asked.stderr.decode(errors="replace").strip()
    if asked.stdout != MARK:
        return f"{NAME} is of another version of Lading: install Lading again, or make setup"
    return ""


class Starter:
    """The container of a run directory."""

    def __init__(self, run: Path, log: Path) -> None:
        self._run = run
        self._log = log
        self._config: Mapping[str, Any] = {}
        self._kept_process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        spec: ContainerSpec,
        config: Mapping[str, Any],
        gate: Gate,
        namespace: UserNamespace | None,
    ) -> subprocess.Popen[bytes]:
        """Make the container up to its gate. Raises OSError, ExecutionError."""
        self._config = config
        with guarded((spec.stdin, spec.stdout, spec.stderr), namespace) as streams:
            return self._spawn(self._run / _STATUS, gate, streams)

    def adopt(self, config: Mapping[str, Any]) -> None:
        """Go on with the container of this configuration, which another process has made."""
        self._config = config

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the container."""
        return self._config

    @property
    def code(self) -> int | None:
        """The exit code of the command; None when it runs, or when its keeper was killed."""
        code = _read(self._run / _STATUS).code
        return code if code >= 0 else None

    @property
    def first(self) -> int | None:
        """The first process of the container, when it is ready to be entered."""
        status = _read(self._run / (_STATUS if self._kept_process is None else _HELD))
        return status.pid if status.ready else None

    async def stop(self, *, grace: float) -> None:
        """Send TERM to each process of the container, and KILL after `grace` seconds."""
        # The container has ended already, or is never ready.
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            first = await finish_within(self._until_ready(_STATUS, None), grace)
            with _opened(self._run / _STATUS) as container:
                # The first process passes it on to all that are there, and then lets them end.
                present = descendants(first)
                signal.pidfd_send_signal(container, signal.SIGTERM)
                await stopping.terminate(first, grace=grace, but=present)
                signal.pidfd_send_signal(container, signal.SIGKILL)

    async def execute(self, order: Exec, *, join: Sequence[str], directory: Path) -> Execution:
        """Run a command beside the container's own. Raises ExecutionError."""
        # Imported here, because few containers are ever entered.
        from lading.supervisor.engines import executing

        number = directory / f"exec-{os.urandom(6).hex()}.pid"
        console = client = None
        name = _STATUS if self._kept_process is None else _HELD
        try:
            with _opened(self._run / name, is_ready=True) as container:
                if order.terminal is not None:
                    console = executing.Console(directory, order.terminal)
                    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
                    client.connect(console.path)
                entry = Entry(
                    process=container,
                    join=join,
                    can_set_groups=_can_set_groups(),
                    terminal=client.fileno() if client else -1,
                )
                process = executing.make_process(order, dict(self._config))
                plan = linux.memory_file(
                    "plan", entry_plan(self._config, process, _filter(), entry)
                )
                executable, copy = program()
                try:
                    return await executing.spawn(
                        [NAME, "exec", str(plan), str(number)],
                        executable=executable,
                        descriptors=(*_open((plan, container, entry.terminal)), *copy),
                        environment={},
                        target=lambda: executing.read_number(number),
                        console=console,
                    )
                finally:
                    os.close(plan)
        except ProcessLookupError:
            raise ExecutionError("the container is not running") from None
        except OSError as error:
            raise ExecutionError(f"the container cannot be entered: {error}") from error
        finally:
            if client is not None:
                client.close()
            if console is not None:
                console.close()

    async def hold(self, *, join: Sequence[str]) -> int:
        """Make the container again, on the same root, without a command. Returns a descriptor: the
        container ends when it is closed. Raises ExecutionError.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            gate = Gate(descriptor=reading, join=join, is_kept=True)
            self._kept_process = self._spawn(self._run / _HELD, gate, (null(),) * 3)
            await finish_within(self._until_ready(_HELD, self._kept_process), _PATIENCE)
        except BaseException as error:
            os.close(writing)
            if self._kept_process is not None:
                # The kernel ends the container with it.
                self._kept_process.kill()
                self.remove()
            if not isinstance(error, OSError | TimeoutError):
                raise
            raise ExecutionError(f"the container cannot be kept: {error}", Failure.NODE) from error
        finally:
            os.close(reading)
        return writing

    def end(self) -> None:
        """Kill the containers of the run directory that still live, also those of a process that
        was killed, and wait until their processes have ended.
        """
        for name in (_STATUS, _HELD):
            # It has ended by itself.
            with contextlib.suppress(ProcessLookupError), _opened(self._run / name) as container:
                signal.pidfd_send_signal(container, signal.SIGKILL)
                # The first process of a pid namespace ends as the last one.
                ending = select.poll()
                ending.register(container, select.POLLIN)
                ending.poll(_PATIENCE * 1000)

    def remove(self) -> None:
        """Wait for the process of a container that was kept, and remove the files."""
        if self._kept_process is not None:
            self._kept_process.wait()
        self._kept_process = None
        for name in (_STATUS, _HELD):
            (self._run / name).unlink(missing_ok=True)

    def _spawn(self, status: Path, gate: Gate, streams: Sequence[int]) -> subprocess.Popen[bytes]:
        gate = structs.replace(gate, can_set_groups=_can_set_groups())
        file = linux.memory_file("plan", container_plan(self._config, _filter(), gate))
        executable, copy = program()
        try:
            stdin, stdout, stderr = streams
            return subprocess.Popen(
                [NAME, "run", str(file), str(status), str(self._log)],
                executable=executable,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env={},
                cwd="/",
                pass_fds=(file, gate.descriptor, *copy),
            )
        finally:
            os.close(file)

    async def _until_ready(self, name: str, process: subprocess.Popen[bytes] | None) -> int:
        """Wait for the first process. Raises OSError when `process` ends before it is ready."""
        while not (status := _read(self._run / name)).ready:
            if process is not None and process.poll() is not None:
                raise OSError(self._log.read_text(errors="replace").strip())
            await asyncio.sleep(_LOOK_TIME)
        return status.pid


class _Status(msgspec.Struct):
    """The present content of a status file."""

    pid: int = 0
    ready: int = 0
    code: int = -1


def _read(path: Path) -> _Status:
    try:
        # A line is written whole.
        lines = path.read_bytes().splitlines()
    except OSError:
        # There is no container yet.
        return _Status()
    known: dict[str, int] = {}
    for line in lines:
        known |= msgspec.json.decode(line, type=dict[str, int])
    return msgspec.convert(known, _Status)


@contextlib.contextmanager
def _opened(path: Path, *, is_ready: bool = False) -> Iterator[int]:
    """A descriptor of the first process that a status file names. Raises ProcessLookupError unless
    its container lives, and with `is_ready` can be entered.
    """
    status = _read(path)
    if not status.pid or (is_ready and not status.ready):
        raise ProcessLookupError(path)
    descriptor = os.pidfd_open(status.pid)
    try:
        # The lock ends before the number of the process is free for another one: a process that
        # was opened before this look is the container's.
        if not is_locked(path):
            raise ProcessLookupError(path)
        yield descriptor
    finally:
        os.close(descriptor)


def _filter() -> bytes:
    return make_program(os.uname().machine)


def _can_set_groups() -> bool:
    return Path("/proc/self/setgroups").read_text() == "allow\n"


def program() -> tuple[str, tuple[int, ...]]:
    """Path of the program for a process that inherits these descriptors: its sealed copy, if there
    is one.
    """
    copy = _sealed.descriptor
    return (f"/proc/self/fd/{copy}", (copy,)) if copy >= 0 else (str(PROGRAM), ())


def _open(descriptors: Sequence[int]) -> tuple[int, ...]:
    return tuple(descriptor for descriptor in descriptors if descriptor >= 0)

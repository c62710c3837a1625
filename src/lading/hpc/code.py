"""The user's code in the container of a rank: start, supervision and end.

Orphans become children of the daemon, so that no process of the code gets lost, and when there are
no children left the code has ended. The end of each process is known from `waitpid` for those that
are or become children, and through a `Tracer` for all others. Without the right to trace, only the
former count, and the query's `reason` says so.

When the daemon is started again while the code runs, it finds the processes of the code by a mark
in their environment, and follows them. An exit code that was lost in between makes the end an
Error, since it may have been one.

Source: docs/spec/hpc-daemon, sections Processes and Progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NoReturn

from lading.core.errors import Invalid, LadingError, Unavailable
from lading.core.hpc import daemon_configuration, daemon_states
from lading.core.hpc.daemon_states import ENDED, ChildPolicy, CodeStatus, ContainerStatus, StartedBy
from lading.hpc import processes
from lading.hpc.daemon_memory import DaemonMemory
from lading.hpc.layout import DaemonLayout
from lading.hpc.processes import WAIT_ALL, Tracer

# Seconds after SIGKILL until all processes must have ended.
# A process in an uninterruptible wait, as on a network file system, ends late or never.
_KILL_TIME = 20.0
# Seconds between two looks at processes.
_LOOK_PERIOD = 1.0
_FAILED = "The code has failed to start"
_EXEC_HINTS = {
    errno.ENOENT: " (the program that its first line names, or the loader that it needs)",
    errno.ENOEXEC: " (neither a program for this machine nor a script that begins with #!)",
    errno.E2BIG: " (arguments and parameters together; send large parameters as files)",
}
_UNTRACED = (
    "processes cannot be traced here: "
    "of those that the code's own processes wait for, no exit code is seen"
)
_UNKNOWN = "the daemon was started again while the code ran, and could not see its exit code"
_logger = logging.getLogger("lading.hpc")


class Code:
    """The code of this container. `on_end` is called when its last process has ended."""

    def __init__(
        self, layout: DaemonLayout, record: DaemonMemory, *, on_end: Callable[[], None]
    ) -> None:
        self._layout, self._record, self._on_end = layout, record, on_end
        self._tracer = Tracer()
        self._ended = asyncio.Event()
        self._reattached = False
        self._tracing = False
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, environment: Mapping[str, str], *, mark: str) -> None:
        """Start the executable.

        Raises Invalid and Unavailable before the cluster is set up and while a file system has
        failed: the code stays in Waiting. Raises Invalid for an executable that cannot be
        started: the code is in Error.
        """
        record = self._record
        if record.code is not CodeStatus.WAITING:
            raise Invalid("Code already started")
        self._check_startable()
        path = self._layout.code(record.settings.code_name)
        self._check_executable(path)
        arguments = [str(path), *record.settings.code_arguments]
        # The gate keeps the child from running code before it is followed and recorded; through
        # `faults` it tells why it could not run, and closes it by running (O_CLOEXEC).
        gate, opener = os.pipe()
        faults, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            self._become(
                arguments, {**environment, processes.MARK: mark}, gate=gate, telling=telling
            )
        os.close(gate)
        os.close(telling)
        self._follow(pid)
        self._note(pid, mark)
        os.close(opener)
        with open(faults, "rb") as report:
            fault = report.read().decode()
        if fault:
            self._fail_to_start(f"{_FAILED}: {fault}")
        self._ended.clear()
        record.started_by = StartedBy.DAEMON
        record.enter(CodeStatus.RUNNING, reason=self._without_tracing())

    def _check_startable(self) -> None:
        record = self._record
        if record.container is ContainerStatus.FS_ERROR:
            fault = record.fault or "the daemon looks again every few seconds"
            raise Unavailable(f"the code cannot be started in the state FSError: {fault}")
        absent = daemon_configuration.missing(record.settings, record.given)
        if absent:
            names = ", ".join(absent)
            raise Invalid(f"the code cannot be started without {names}: send daemon-configuration")

    def _check_executable(self, path: Path) -> None:
        shown = self._layout.outside(path)
        if not path.exists():
            advice = "copy the program there in the image, or set codeName"
            self._fail_to_start(f"Code executable is missing: there is no {shown}; {advice}")
        if not path.is_file():
            self._fail_to_start(f"{_FAILED}: {shown} is not a file")
        if not os.access(path, os.X_OK):
            self._fail_to_start(f"{_FAILED}: {shown} is not executable; set its mode to 755")

    def _fail_to_start(self, reason: str) -> NoReturn:
        self._record.enter(CodeStatus.ERROR, reason=reason)
        self._on_end()
        raise Invalid(reason)

    def _become(
        self, arguments: list[str], environment: Mapping[str, str], *, gate: int, telling: int
    ) -> NoReturn:
        """In the child: execute the code once the parent has closed the gate."""
        home = self._layout.home
        doing, hints = "its output cannot be kept", dict[int, str]()
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            # A session of its own: signals to the daemon's group do not reach the code.
            os.setsid()
            streams = [
                os.open(os.devnull, os.O_RDONLY),
                *(self._open_log(name) for name in ("stdout", "stderr")),
            ]
            for descriptor, stream in enumerate(streams):
                os.dup2(stream, descriptor)
            doing = f"it begins in the home directory {home}, which cannot be entered"
            os.chdir(self._layout.inside(home))
            os.umask(0o022)
            # Returns when the parent closes its end.
            os.read(gate, 1)
            doing, hints = f"{self._layout.outside(Path(arguments[0]))} cannot be run", _EXEC_HINTS
            # The user's own code.
            os.execve(arguments[0], arguments, dict(environment))  # noqa: S606
        except OSError as error:
            report = f"{doing}: {error.strerror or 'unknown'}{hints.get(error.errno or 0, '')}"
            os.write(telling, report.encode("utf-8", "surrogateescape"))
        finally:
            # Not `exit`: the handlers and buffers of the daemon are the parent's. 127 is the exit
            # code of shells for a program that cannot be run.
            os._exit(127)

    def _open_log(self, name: str) -> int:
        return os.open(self.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def log(self, name: str) -> Path:
        """The file with the code's `stdout` or `stderr`."""
        return self._layout.own / f"{name}.txt"

    def _follow(self, pid: int) -> None:
        if self._record.settings.child_policy is ChildPolicy.ANY:
            try:
                self._tracer.seize(pid)
                self._tracing = True
            except OSError as error:
                _logger.warning("%s: %s", _UNTRACED, error.strerror)

    def _without_tracing(self) -> str:
        wanted = self._record.settings.child_policy is ChildPolicy.ANY
        return _UNTRACED if wanted and not self._tracing else ""

    def _note(self, pid: int, mark: str) -> None:
        found = processes.look(pid)
        self._record.pid, self._record.born, self._record.mark = (
            pid,
            found.born if found else 0,
            mark,
        )
        self._record.save()

    def reap(self) -> None:
        """A child has ended or a traced process has stopped: the handler of SIGCHLD."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | WAIT_ALL)
            except ChildProcessError:
                self._settle()
                return
            if pid == 0:
                return
            # Only traced processes report stops.
            if os.WIFSTOPPED(status):
                self._tracer.stopped(pid, status)
            else:
                self._one_ended(pid, daemon_states.shell_code(os.waitstatus_to_exitcode(status)))

    def _one_ended(self, pid: int, code: int) -> None:
        record = self._record
        direct = pid == record.pid
        # Threads of traced processes end here too; without tracing only children do.
        counts = self._tracer.ended(pid) or direct or not self._tracing
        if direct:
            record.exit_code = code
        if record.code is not CodeStatus.RUNNING or record.killed or record.failed or not counts:
            return
        if daemon_states.ends_all(record.settings.child_policy, direct=direct, exit_code=code):
            record.failed = True
            record.reason = f"process {pid} ended with exit code {code}" + (
                ", the executable" if direct else ""
            )
            record.save()
            self._spawn(self._end_all())

    def _settle(self) -> None:
        """No child is left: the code has ended, unless it is nobody's child of ours."""
        record = self._record
        if record.code is not CodeStatus.RUNNING or record.started_by is not StartedBy.DAEMON:
            return
        if self._reattached and processes.marked(record.mark):
            return
        status = daemon_states.outcome(
            killed=record.killed, failed=record.failed, exit_code=record.exit_code
        )
        reason = record.reason if record.failed else ""
        if status is CodeStatus.ERROR and not reason:
            unknown = record.exit_code is None
            reason = (
                _UNKNOWN if unknown else f"the executable ended with exit code {record.exit_code}"
            )
        record.enter(status, reason=reason)
        self._ended.set()
        self._on_end()

    async def kill(self) -> None:
        """End all processes of the code. Raises Invalid when none runs, Unavailable when some do
        not die.
        """
        record = self._record
        if record.code is not CodeStatus.RUNNING:
            raise Invalid("No process currently running")
        record.killed = True
        record.save()
        await self._end_all()

    async def _end_all(self) -> None:
        """Send TERM to all processes, KILL to the rest after a grace period; repeat until none is
        left, as processes may start meanwhile.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._record.settings.kill_grace
        processes.send(self._processes(), signal.SIGTERM)
        # A stopped process handles TERM only once it continues.
        processes.send(self._processes(), signal.SIGCONT)
        while self._processes() and loop.time() < until:
            await self._moment()
        until = loop.time() + _KILL_TIME
        # Looked up again for each round: a process that was being forked is found by the next one.
        while left := self._processes():
            if loop.time() > until:
                reason = f"processes {sorted(left)[:10]} cannot be killed"
                self._record.reason, self._record.killed = reason, False
                self._record.save()
                raise Unavailable(reason)
            processes.send(left, signal.SIGKILL)
            await self._moment()
        self.reap()
        self._settle()
        if self._record.started_by is StartedBy.EXTERNALLY:
            self._outside_ended()

    async def _moment(self) -> None:
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait((ended,), timeout=0.02)
        finally:
            ended.cancel()

    def _processes(self) -> dict[int, processes.LiveProcess]:
        if self._record.started_by is StartedBy.EXTERNALLY:
            return processes.started_outside(
                self._layout.code(self._record.settings.code_name).name
            )
        mine = processes.descendants([os.getpid()])
        return {**mine, **processes.marked(self._record.mark)} if self._reattached else mine

    def reattach(self) -> None:
        """Follow the code that an earlier daemon started. Raises OSError."""
        record = self._record
        if record.code is not CodeStatus.RUNNING or record.started_by is not StartedBy.DAEMON:
            if record.code is CodeStatus.RUNNING:
                self._ended.clear()
            return
        self._reattached = True
        for pid in processes.marked(record.mark):
            # Without the right to trace, or ended already.
            with contextlib.suppress(OSError):
                self._tracer.seize(pid)
                self._tracing = True
        self._spawn(self._until_gone())

    async def _until_gone(self) -> None:
        while self._record.code is CodeStatus.RUNNING:
            self.reap()
            found = processes.marked(self._record.mark)
            if not found:
                self._settle()
                return
            await _gone(found)

    async def look_outside(self) -> None:
        """Notice code that another rank starts here through ssh, and its end, until cancelled."""
        record = self._record
        while True:
            if record.code is CodeStatus.RUNNING and record.started_by is StartedBy.EXTERNALLY:
                running = self._processes()
                if running:
                    await _gone(running)
                    continue
                if not record.killed:
                    self._outside_ended()
            elif self._may_start_outside():
                running = processes.started_outside(
                    self._layout.code(record.settings.code_name).name
                )
                if running:
                    self._ended.clear()
                    record.started_by, record.killed = StartedBy.EXTERNALLY, False
                    record.enter(CodeStatus.RUNNING)
                    continue
            else:
                # Code that the daemon follows by ptrace needs no other observation.
                await record.changed()
                continue
            await asyncio.sleep(_LOOK_PERIOD)

    def _may_start_outside(self) -> bool:
        code, by = self._record.code, self._record.started_by
        return code is CodeStatus.WAITING or (
            code is CodeStatus.STOPPED and by is StartedBy.EXTERNALLY
        )

    def _outside_ended(self) -> None:
        if self._record.code in ENDED:
            return
        self._record.enter(CodeStatus.KILLED if self._record.killed else CodeStatus.STOPPED)
        self._ended.set()
        self._on_end()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop following; the code continues."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (LadingError, OSError) as error:
        _logger.error("%s", error)


async def _gone(running: Mapping[int, processes.LiveProcess]) -> None:
    """Wait until all processes have ended. Wait a moment only if too many are there to watch."""
    loop = asyncio.get_running_loop()
    all_ended = asyncio.Event()
    watched: set[int] = set()

    def ended(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        watched.discard(descriptor)
        if not watched:
            all_ended.set()

    try:
        for pid in running:
            # Ended already.
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                watched.add(descriptor)
                loop.add_reader(descriptor, ended, descriptor)
        if watched:
            await all_ended.wait()
    except OSError:
        await asyncio.sleep(_LOOK_PERIOD)
    finally:
        for descriptor in tuple(watched):
            ended(descriptor)

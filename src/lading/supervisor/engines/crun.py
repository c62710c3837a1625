"""Starts crun: the program in sealed memory, in the container's cgroup, with safe streams.

crun copies itself into a sealed memory file whenever it is started from disk, and starts again from
there, so that no container can change it through /proc (CVE-2019-5736). That is a quarter of its
processor time. A sealed copy (`SealedProgram`) is accepted as it is.

A process can open its descriptors 0, 1 and 2 again by /proc/self/fd, for writing too, and change
the owner and the mode of their files; crun gives all three to the command's user. So an input file
is opened through a read-only mount: it may belong to the cache, which all containers of the machine
share. A missing stream is /dev/null through such a mount, since its owner and mode are the
machine's.

`failure` interprets the message of a failed start.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import fcntl
import functools
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.core.images import DEFAULT_PATH
from lading.process.concurrency import finish_within
from lading.supervisor import linux
from lading.supervisor.engines import ContainerSpec, stopping
from lading.supervisor.engines.container_init import ContainerInit
from lading.supervisor.engines.id_mappings import READ_ONLY, reopen
from lading.supervisor.engines.refusals import start_refusal
from lading.supervisor.engines.user_namespace import UserNamespace
from lading.supervisor.limits.cgroup import Cgroup
from lading.supervisor.limits.counters import PROC, descendants

PROGRAM = "crun"
# Seconds for crun to answer, or to end a container.
_PATIENCE = 10.0
# Seconds between two looks for a container's first process.
_LOOK_TIME = 0.01
# Joins every cgroup named before `--`, then becomes the program after it.
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'
_Answer = TypeVar("_Answer")
# Words of crun's messages about the command itself.
_COMMAND = ("executable", "exec ", "chdir")
# No change of content or size, and no removal of the seals (memfd_create(2), fcntl(2)).
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_Mark = tuple[int, int, int]


def joining(files: Sequence[str]) -> list[str]:
    """Command prefix that joins the cgroups with these files."""
    # $0 is "sh"; the files and the command follow.
    return ["/bin/sh", "-c", _JOIN, "sh", *files, "--"] if files else []


def spawn(
    spec: ContainerSpec,
    command: list[str],
    executable: str | None = None,
    *,
    environment: dict[str, str],
    program: int = -1,
) -> subprocess.Popen[bytes]:
    """Start crun, or the conductor of a gang, with the streams of the container. Raises OSError."""
    null = subprocess.DEVNULL
    return subprocess.Popen(
        command,
        executable=executable,
        stdin=spec.stdin if spec.stdin >= 0 else null,
        stdout=spec.stdout if spec.stdout >= 0 else null,
        stderr=spec.stderr if spec.stderr >= 0 else null,
        env=environment,
        cwd="/",
        pass_fds=[
            *(descriptor for descriptor in (program, spec.notices) if descriptor >= 0),
            *(spec.spread.descriptors if spec.spread else ()),
        ],
    )


def start(
    spec: ContainerSpec, command: list[str], cgroup: Cgroup, namespace: UserNamespace | None
) -> subprocess.Popen[bytes]:
    """Start crun in a control group, with safe streams. Raises OSError."""
    environment, program = {"PATH": DEFAULT_PATH}, sealed.descriptor
    path = f"/proc/self/fd/{program}" if program >= 0 else PROGRAM
    with guarded((spec.stdin, spec.stdout, spec.stderr), namespace) as (stdin, stdout, stderr):
        given = structs.replace(spec, stdin=stdin, stdout=stdout, stderr=stderr)
        if not cgroup.takes_threads:
            joined = [*joining(cgroup.join_files), path, *command[1:]]
            return spawn(given, joined, environment=environment, program=program)

        def join_and_spawn() -> subprocess.Popen[bytes]:
            cgroup.join()
            return spawn(given, command, path, environment=environment, program=program)

        return in_thread_of_its_own(join_and_spawn)


async def version(program: str, argument: str) -> str:
    """The first line that a program says of itself. Raises ExecutionError(NODE)."""
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        asked = await asyncio.create_subprocess_exec(
            program, argument, stdin=null, stdout=pipe, stderr=null
        )
        output, _ = await finish_within(asked.communicate(), _PATIENCE)
    except (OSError, TimeoutError) as error:
        name = Path(program).name
        raise ExecutionError(
            f"{name} cannot be run ({error}); install the package {PROGRAM}", Failure.NODE
        ) from error
    return output.decode(errors="replace").split("\n", 1)[0]


async def delete(command: Sequence[str], states: Iterable[Path]) -> None:
    """End what is left of containers that no control group has, by their directories of crun.
    `command` is crun up to its global options.
    """
    null = subprocess.DEVNULL
    for container in sorted(states):
        deleted = await asyncio.create_subprocess_exec(
            *command, "delete", "--force", container.name, stdin=null, stdout=null, stderr=null
        )
        await finish_within(deleted.wait(), _PATIENCE)


async def stop_by_init(
    find_runtime: Callable[[], int | None], init: ContainerInit, *, grace: float
) -> None:
    """Let the first process of the container of a crun send TERM to each process, and send KILL
    after `grace` seconds.
    """
    # The process has ended already, or never started.
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        first = await finish_within(_find_init(find_runtime), grace)
        await finish_within(init.ready(), grace)
        # The first process passes it on to all that are there, and then lets them end.
        present = descendants(first)
        os.kill(first, signal.SIGTERM)
        await stopping.terminate(first, grace=grace, but=present)
        os.kill(first, signal.SIGKILL)


def kill_programs(word: str, *, proc: Path = PROC) -> None:
    """Kill each process that has `word` as an argument, and its descendants. The first process of
    a container has the arguments of its crun until it begins the command.
    """
    argument = os.fsencode(word)
    for directory in proc.glob("[0-9]*"):
        # It has ended, or belongs to another user.
        with contextlib.suppress(OSError):
            if argument in (directory / "cmdline").read_bytes().split(b"\0"):
                for pid in descendants(int(directory.name), proc=proc):
                    # It has ended with another one.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


async def stop(find_runtime: Callable[[], int | None], *, grace: float) -> None:
    """Send TERM to each process of the container of a crun, and KILL after `grace` seconds."""
    # The process has ended already, or never started.
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        first = await finish_within(_find_init(find_runtime), grace)
        await stopping.terminate(first, grace=grace)
        os.kill(first, signal.SIGKILL)


async def _find_init(find_runtime: Callable[[], int | None]) -> int:
    """Wait for the container's first process. crun may write its status after the command has
    begun.
    """
    while True:
        runtime = find_runtime()
        init = linux.find_init(descendants(runtime) if runtime else ())
        if init is not None:
            return init
        await asyncio.sleep(_LOOK_TIME)


def first_process(status: Path) -> int | None:
    """The first process of a container, from crun's status file; None when there is none."""
    try:
        return int(msgspec.json.decode(status.read_bytes())["pid"])
    except (OSError, ValueError, KeyError):
        return None


def in_thread_of_its_own(work: Callable[[], _Answer]) -> _Answer:
    """Do some work in a thread that ends with it. This saves one exec against a shell that joins
    the cgroup and becomes crun.
    """
    answers: list[_Answer] = []
    faults: list[Exception] = []
    ended = _thread.allocate_lock()
    ended.acquire()

    def do() -> None:
        try:
            answers.append(work())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            faults.append(error)
        finally:
            ended.release()

    # `threading.Thread` waits until the new thread has begun, and then for its end: two changes of
    # threads more, 0.3 ms of the 1.5 ms that the start of crun takes here. Until the kernel has
    # removed the thread the cgroup seems to contain this whole process (`Cgroup.processes`).
    _thread.start_new_thread(do, ())
    with ended:
        pass
    for fault in faults:
        raise fault
    return answers[0]


def failure(message: str) -> ExecutionError:
    """The error for a message of crun about a command that was never started."""
    return start_refusal(message, command=_COMMAND)


class SealedProgram:
    """The sealed copy of a program, for this process and its forks; `name`: on PATH, or a path."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._path = ""
        self._mark: _Mark = (0, 0, 0)
        self._descriptor = -1

    def seal(self) -> None:
        """Make the copy of the program on PATH. Without permission or support there is none."""
        # Without a sealed copy crun makes one for itself at every start.
        with contextlib.suppress(OSError):
            path = shutil.which(self._name) or ""
            mark, content = _mark(path), Path(path).read_bytes()
            name = Path(self._name).name
            descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                _write(descriptor, content)
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            except OSError:
                os.close(descriptor)
                raise
            # The former copy, when the program was replaced.
            self.close()
            self._path, self._mark, self._descriptor = path, mark, descriptor

    @property
    def descriptor(self) -> int:
        """Descriptor of the copy; -1 when there is none, or the program was replaced since."""
        if self._descriptor < 0:
            return -1
        try:
            return self._descriptor if _mark(self._path) == self._mark else -1
        except OSError:
            # The program was removed or replaced.
            return -1

    def close(self) -> None:
        """Close the in-memory copy."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


sealed = SealedProgram(PROGRAM)
"""crun for this process and its forks."""


def _mark(path: str) -> _Mark:
    found = Path(path).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def guarded(
    descriptors: Sequence[int], namespace: UserNamespace | None
) -> Iterator[tuple[int, ...]]:
    """Descriptors for input, output and errors instead of the given ones (-1: none), open inside
    the context.

    Raises OSError.
    """
    opened: list[int] = []
    try:
        used = []
        for number, descriptor in enumerate(descriptors):
            guard = (
                null() if descriptor < 0 else _guard(descriptor, namespace, readonly=number == 0)
            )
            if descriptor >= 0 and guard != descriptor:
                opened.append(guard)
            used.append(guard)
        yield tuple(used)
    finally:
        for descriptor in opened:
            os.close(descriptor)


@functools.lru_cache(maxsize=1)
def null() -> int:
    """A descriptor of /dev/null through which its owner and mode cannot be changed; shared by all
    forks of this process.
    """
    descriptor = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    try:
        guard = reopen(descriptor, attributes=READ_ONLY)
    except OSError:
        # Before Linux 5.12 there are no idmapped mounts and no user namespaces for containers; crun
        # then makes device files for each container.
        return descriptor
    os.close(descriptor)
    return guard


def _guard(descriptor: int, namespace: UserNamespace | None, *, readonly: bool) -> int:
    # Pipes belong to this container alone.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    if namespace is not None:
        return namespace.stream(descriptor, readonly=readonly)
    try:
        return reopen(descriptor, attributes=READ_ONLY) if readonly else descriptor
    except OSError:
        # It cannot be reopened through a mount; the stream stays as it is.
        return descriptor


def check_started(log: Path) -> None:
    """Distinguish a command that failed from one that was never started, by the log of crun or of
    lading-start. Raises ExecutionError for the latter.
    """
    try:
        message = "; ".join(log.read_text(errors="replace").split("\n")).strip("; ")
    except FileNotFoundError as error:
        # Both create their log before anything else.
        raise ExecutionError(
            "crun could not be run; install the package crun", Failure.NODE
        ) from error
    if message:
        raise failure(message)

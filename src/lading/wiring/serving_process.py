"""The process of `lading up` that serves a data directory: its start in the background, its record
in the directory, and its end by another process.

The record `up.json` names the process by its pid together with the time of its start, in clock
ticks since the boot with an id: another process that got the same pid later, or after a reboot, is
never taken for it. A signal is sent through a pidfd that was opened before the comparison, so that
not even a pid that is reused meanwhile can receive it. The lock of the directory says whether it is
served at all.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import msgspec

from lading.client.servers.own_site import boot_id, check_machine, is_locked
from lading.core.errors import Conflict, Unavailable
from lading.core.quantities import shorten
from lading.wiring.directory import DataDirectory, write_private

_LOG_LIMIT: Final = 16 << 20
"""Bytes of the log at a start; a larger one is moved to `.log.1`."""
_LONGEST: Final = 4096
"""Bytes of a message of readiness, and of the log that a failed start tells."""
_LINES: Final = 3
"""Lines of the log that a failed start tells."""
_TEXT: Final = 160
"""Characters of these lines, at most."""
_PAUSE: Final = 0.05
"""Seconds between two looks at a process that is started or stopped by somebody else."""
_SETTLING: Final = 120.0
"""Seconds that such a process has: longer than its own time limits."""
# In the line of /proc/PID/stat behind the name, which may have blanks: the start, field 22.
_START_FIELD: Final = 22 - 3


class ServingProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The record of the process that serves a data directory."""

    pid: int
    started: int
    """Start of the process, in clock ticks since the boot."""
    boot: str
    host: str = ""
    """Name of the machine, for people: a directory may be shared by several."""
    address: str = ""
    """The address that it serves, once it does."""
    log: str = ""
    """The directory of its logs; "" if they go to its standard error."""


def this_process(*, log: Path | None = None, address: str = "") -> ServingProcess:
    """The record of this process."""
    started = _started(os.getpid())
    return ServingProcess(
        pid=os.getpid(),
        started=started,
        boot=boot_id(),
        host=socket.gethostname(),
        address=address,
        log=str(log or ""),
    )


def write_record(directory: DataDirectory, process: ServingProcess) -> None:
    """Replace the record of a directory that this process has claimed."""
    write_private(_record(directory), msgspec.json.format(msgspec.json.encode(process)))


def remove_record(directory: DataDirectory) -> None:
    """Remove the record, before this process gives the directory up."""
    _record(directory).unlink(missing_ok=True)


def read_record(directory: DataDirectory) -> ServingProcess | None:
    """The record of the directory; None without one, or with one that is damaged."""
    try:
        return msgspec.json.decode(_record(directory).read_bytes(), type=ServingProcess)
    except (OSError, msgspec.DecodeError):
        return None


def is_served(directory: DataDirectory) -> bool:
    """Whether a process holds the lock of the directory."""
    return is_locked(directory.root)


def open_process(process: ServingProcess) -> int | None:
    """A pidfd of the process; None if it has ended, whoever has its pid now."""
    if process.boot != boot_id():
        return None
    try:
        descriptor = os.pidfd_open(process.pid)
    except (ProcessLookupError, ValueError):
        return None
    # The descriptor keeps the process that it was opened for, so that this one is compared.
    try:
        is_same = _started(process.pid) == process.started
    except OSError:
        is_same = False
    # One that has ended and that nobody has waited for is still listed.
    if is_same and not _has_ended(descriptor, timeout=0):
        return descriptor
    os.close(descriptor)
    return None


def stop_serving(directory: DataDirectory, *, timeout: float) -> ServingProcess | None:
    """Stop the process that serves a directory, and wait until it has ended; its record, None if
    none serves it. Containers go on.

    Raises Conflict if it cannot be told which process that is, Unavailable if it has not ended
    after `timeout` seconds.
    """
    process = read_record(directory)
    descriptor = open_process(process) if process is not None else None
    if process is None or descriptor is None:
        if is_served(directory):
            raise Conflict(
                f"{directory.root}: is served by a process that is not this machine's, or of an "
                "earlier version; stop it where it was started"
            )
        return None
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not _has_ended(descriptor, timeout=timeout):
            raise Unavailable(
                f"process {process.pid} has not ended after {timeout:.0f} s; "
                f"see the logs in {process.log or 'its journal'}, or kill -9 {process.pid}"
            )
    except ProcessLookupError:
        # It has just ended by itself.
        return process
    finally:
        os.close(descriptor)
    return process


def _has_ended(descriptor: int, *, timeout: float) -> bool:
    """Whether the process of a pidfd ends within so many seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


class StartedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that serves in the background; `is_new`: it was started by this call."""

    process: ServingProcess
    status: str
    """Its message when it was ready: address and engine."""
    log: Path
    is_new: bool


def start_serving(directory: DataDirectory, arguments: Sequence[str]) -> StartedProcess:
    """Start `lading up` with these arguments in the background, and wait until it serves; the one
    that serves the directory already, if there is one, also one that is being started or stopped
    when this is called. Raises Unavailable with the last lines of its log, and Conflict if it runs
    on another machine.
    """
    path = directory.root / "log" / "up.log"
    with _starting(directory):
        until = time.monotonic() + _SETTLING
        while True:
            check_machine(directory.root)
            if (process := _serving(directory)) is not None:
                return StartedProcess(process=process, status="", log=path, is_new=False)
            if not is_served(directory):
                begun = _start(directory, arguments, path)
                if begun is not None:
                    return begun
                # Another `lading up`, in a terminal, was faster, and serves soon.
            elif time.monotonic() > until:
                raise Unavailable(
                    f"{directory.root}: the 'lading up' of this directory neither serves nor ends;"
                    f" see its log, or end it with 'lading down' (log: {path})"
                )
            time.sleep(_PAUSE)


def _start(directory: DataDirectory, arguments: Sequence[str], path: Path) -> StartedProcess | None:
    """Start a process and wait until it serves; None if another one has the directory. Raises
    Unavailable with the last lines of its log.
    """
    with tempfile.TemporaryDirectory(prefix="lading-up-") as folder, _open_log(path) as log:
        began = log.tell()
        ready_path = str(Path(folder, "ready"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(ready_path)
            child = subprocess.Popen(
                [sys.executable, "-m", "lading", "up", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory.root,
                env=os.environ | {"NOTIFY_SOCKET": ready_path},
                # No terminal of its own: it outlives the shell that has started it.
                start_new_session=True,
            )
            status = _until_ready(child, channel)
    if status is not None and (process := read_record(directory)) is not None:
        # Popen must not complain that its child goes on.
        child.returncode = 0
        return StartedProcess(process=process, status=status, log=path, is_new=True)
    child.wait()
    if is_served(directory):
        return None
    raise Unavailable(f"lading up did not start: {_last_lines(path, began)} (log: {path})")


@contextmanager
def _starting(directory: DataDirectory) -> Iterator[None]:
    """Let one call at a time start a process of the directory."""
    path = directory.root / "start.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _serving(directory: DataDirectory) -> ServingProcess | None:
    """The process that serves a directory; None if it does not, or is not ready yet."""
    process = read_record(directory)
    if process is None or not process.address or not is_served(directory):
        return None
    descriptor = open_process(process)
    if descriptor is None:
        return None
    os.close(descriptor)
    return process


def _until_ready(child: subprocess.Popen[bytes], channel: socket.socket) -> str | None:
    """Wait until the child says that it is ready; what it said, None if it has ended before."""
    descriptor = os.pidfd_open(child.pid)
    try:
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.register(descriptor, select.POLLIN)
        while True:
            ready = {number for number, _ in poll.poll()}
            if channel.fileno() in ready:
                lines = channel.recv(_LONGEST).decode(errors="replace").split("\n")
                if "READY=1" in lines:
                    return next(
                        (
                            line.removeprefix("STATUS=")
                            for line in lines
                            if line.startswith("STATUS=")
                        ),
                        "",
                    )
            elif descriptor in ready:
                return None
    except BaseException:
        # Ctrl-C, for example: nobody waits for it any more.
        child.terminate()
        child.wait()
        raise
    finally:
        os.close(descriptor)


def _open_log(path: Path) -> IO[bytes]:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def _last_lines(path: Path, began: int) -> str:
    with path.open("rb") as log:
        log.seek(began)
        lines = log.read()[-_LONGEST:].decode(errors="replace").split("\n")
    texts = [line.strip().removeprefix("lading: ") for line in lines if line.strip()]
    message = shorten(texts[-1], _TEXT) if texts else "no message"
    # Earlier lines as far as there is room: the last one has the reason.
    for earlier in texts[-2 : -_LINES - 1 : -1]:
        if len(earlier) + len(message) > _TEXT:
            break
        message = f"{earlier}; {message}"
    return message


def _record(directory: DataDirectory) -> Path:
    return directory.root / "up.json"


def _started(pid: int) -> int:
    """Start of a process in clock ticks since the boot. Raises OSError if there is none."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[_START_FIELD])

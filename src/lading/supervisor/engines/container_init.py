"""The first process of containers that crun or a daemon makes: `lading-start init`.

The kernel ignores signals that the first process of a container sends to itself, and gives it the
orphans of all others, which it has to collect. A command does neither. So `lading-start` is the
first process: it starts the command, collects what has ended, passes TERM on to all, and ends with
the exit code of the command, as a shell shows it; all others end with it.

It is mounted into the container, and reports through a named pipe whether the command was started.
The container can write to this pipe too: a report is at most a reason in words for the end of its
own command. In the ranks of a gang it has no pipe: there the command is the daemon of the image,
whose end the conductor notices, and a fault is the last line of the console.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Bind, command_failure

PROGRAM: Final = Path(__file__).parents[1] / "starter" / "lading-start"
"""The program of this installation; missing where no compiler built it."""
NOT_STARTED: Final = 125
"""Exit code of the program if it started nothing (fault.h)."""
NOT_RUN: Final = (126, 127)
"""Its exit codes for a command that cannot be run, and for one that is not there (command.c). A
command can end with all three, too.
"""
LACKING: Final = (
    "the command is the first process of its container, which ignores its own signals and collects"
    " no orphans: this installation was built without a C compiler"
)
"""Note about a container without the program."""
_TARGET, _REPORTS, _NO_REPORTS = "/.lading-init", "/.lading-reports", "-"
_PROGRAM_BIND: Final = Bind(str(PROGRAM), _TARGET, True)
# struct report of fault.h: kind, value, text.
_REPORT: Final = struct.Struct("=ii504s")
_READY, _FAULT = 1, 2
# Every user of the container may write to the pipe: the first process has the command's user.
_MODE: Final = 0o622


def has_init() -> bool:
    """Whether this installation has the program."""
    return PROGRAM.exists()


def open_init(directory: Path, notes: list[str], owner: int = 0) -> ContainerInit | None:
    """The first process of a container, with its pipe in a directory, for the container's root
    `owner`; None and a note where nobody compiled the program. Raises OSError.
    """
    if has_init():
        return ContainerInit(directory, owner=owner)
    if LACKING not in notes:
        notes.append(LACKING)
    return None


def rank_init(notes: list[str]) -> tuple[tuple[Bind, ...], tuple[str, ...]]:
    """The mounts of the first process of a rank, and its arguments before those of the image's own
    command; empty, with a note, where nobody compiled the program.
    """
    if has_init():
        return (_PROGRAM_BIND,), (_TARGET, "init", _NO_REPORTS)
    if LACKING not in notes:
        notes.append(LACKING)
    return (), ()


class ContainerInit:
    """The first process of one container. `close` it."""

    def __init__(self, directory: Path, *, owner: int = 0) -> None:
        """Make its pipe in a directory, for the container's root `owner`. Raises OSError."""
        self._path = directory / "reports"
        # Left by an earlier supervisor that was killed.
        self._path.unlink(missing_ok=True)
        os.mkfifo(self._path, 0o600)
        # Independent of the umask.
        self._path.chmod(_MODE)
        if owner:
            os.chown(self._path, owner, owner)
        # Both ends, so that neither this process nor the container waits for the other (fifo(7)).
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._received = b""

    @property
    def program(self) -> Bind:
        """The mount of the program."""
        return _PROGRAM_BIND

    @property
    def pipe(self) -> Bind:
        """The mount of the pipe, which belongs to the container's root already."""
        return Bind(str(self._path), _REPORTS, False)

    @property
    def binds(self) -> tuple[Bind, Bind]:
        """Both mounts."""
        return self.program, self.pipe

    @staticmethod
    def arguments(command: Sequence[str] = ()) -> tuple[str, ...]:
        """The arguments with which the first process starts a command."""
        return (_TARGET, "init", _REPORTS, *command)

    async def ready(self) -> None:
        """Wait until it hears signals; those before are lost. Cancel it with a time limit."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            while not self._receive():
                readable.clear()
                await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)

    def check_started(self, code: int) -> None:
        """Raise ExecutionError if the command was never started: the exit code of the first process
        is `code`, and its second report the reason. USER, or NODE if there is no first report.
        """
        if code not in (NOT_STARTED, *NOT_RUN):
            return
        reports = self._receive()
        # Nothing of the container runs before the first report, and can have written it.
        if code == NOT_STARTED and (not reports or reports[0][0] != _READY):
            reason = _words(reports[0][2]) if reports else "it reported nothing"
            raise ExecutionError(
                f"the first process of the container did not start: {reason}", Failure.NODE
            )
        if len(reports) > 1 and reports[1][0] == _FAULT:
            # Whatever the text says, the command is at fault: the container could have written it.
            raise command_failure(_words(reports[1][2]))

    def close(self) -> None:
        """Close and remove the pipe. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._path.unlink(missing_ok=True)

    def _receive(self) -> list[tuple[int, int, bytes]]:
        """The first reports, two at most: the container can write more."""
        wanted = 2 * _REPORT.size - len(self._received)
        if wanted > 0 and self._descriptor >= 0:
            # Nothing was reported since.
            with contextlib.suppress(BlockingIOError):
                self._received += os.read(self._descriptor, wanted)
        whole = len(self._received) // _REPORT.size * _REPORT.size
        return list(_REPORT.iter_unpack(self._received[:whole]))


def _words(report: bytes) -> str:
    """The text of a report, without control characters."""
    decoded = report.rstrip(b"\0").decode(errors="replace")
    return "".join(character if character.isprintable() else "?" for character in decoded)

"""The run directory of a container: its lock, and the journal of the supervisor's steps.

The journal records the steps that a supervisor has begun and finished, so that another process can
undo them after a crash. It has one JSON object a line. The first line names the engine of the
container and its settings; each other line names a step and its progress. Nothing here is secret:
neither tokens nor contents of mounts are written. After a crash of the machine no step remains to
be undone, so the file is not synced.

The holder of the lock is the only supervisor of that container. `<run directory>/lock` contains
`{"UUID": ..., "PID": ...}` and is held with flock for the life of the supervisor. The descriptor is
closed on exec, so no child keeps the lock of a dead supervisor. Signal handlers are installed
before the file is written, so a process that finds a pid there may send a signal.
"""

from __future__ import annotations

import fcntl
import os
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from lading.core.errors import Conflict
from lading.supervisor.engines import EngineSettings, Exit

NAME = "journal"
CONTAINER_STEP = "container"
"""From this step on the engine has something to remove."""
COMMAND_STEP = "command"
LOCK_NAME = "lock"


class StepMark(StrEnum):
    """Progress of a step."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"


class JournalHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    engine: str
    settings: EngineSettings


class JournalLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Any other line. `exit`: the end of the command, which was seen."""

    step: str
    mark: StepMark
    exit: Exit | None = None


class JournalObserver(Protocol):
    """Hears of the lines of a journal."""

    def mark(self, step: str, mark: StepMark) -> None:
        """A line was written."""

    def close(self) -> None:
        """The journal was closed. May be called again."""


class RunJournal:
    """Appends to the journal in one run directory; `observer` hears of each line."""

    def __init__(self, run_directory: Path, observer: JournalObserver | None = None) -> None:
        self._observer = observer
        self._path = run_directory / NAME
        # Open from the first line to `close`: eight lines a container are written.
        self._descriptor = -1

    def open(self, opening: JournalHeader) -> None:
        """Begin a new journal."""
        self._append(msgspec.json.encode(opening), os.O_TRUNC)

    def write(self, step: str, mark: StepMark) -> None:
        """Add a line."""
        self._append(msgspec.json.encode(JournalLine(step, mark)), 0)
        if self._observer is not None:
            self._observer.mark(step, mark)

    def write_exit(self, ended: Exit) -> None:
        """Record the end of the command."""
        self._append(msgspec.json.encode(JournalLine(COMMAND_STEP, StepMark.BEGUN, ended)), 0)

    def close(self) -> None:
        """Close the file. A later line opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        if self._observer is not None:
            self._observer.close()

    def _append(self, line: bytes, flags: int) -> None:
        if self._descriptor < 0:
            flags |= os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
        os.write(self._descriptor, line + b"\n")


def read_journal(run_directory: Path) -> tuple[JournalHeader, list[JournalLine]] | None:
    """Contents of the journal; None when there is none or its first line is incomplete."""
    try:
        first, *encoded_lines = (run_directory / NAME).read_bytes().split(b"\n")
        opening = msgspec.json.decode(first, type=JournalHeader)
    except (OSError, msgspec.DecodeError):
        # A journal without a readable beginning is none.
        return None
    lines = []
    for encoded in encoded_lines:
        try:
            lines.append(msgspec.json.decode(encoded, type=JournalLine))
        # The last line may be incomplete after a crash: its step was not begun, as the line is
        # written first.
        except msgspec.DecodeError:
            break
    return opening, lines


def unfinished(lines: list[JournalLine]) -> list[str]:
    """Steps that were begun and not undone, the last one first."""
    begun: dict[str, None] = {}
    for line in lines:
        if line.mark is StepMark.UNDONE:
            begun.pop(line.step, None)
        else:
            begun.setdefault(line.step)
    return list(reversed(begun))


def last_exit(run_directory: Path) -> Exit | None:
    """The recorded end of the command; None without one."""
    found = read_journal(run_directory)
    exits = [line.exit for line in found[1] if line.exit is not None] if found else []
    return exits[-1] if exits else None


class LockHolder(msgspec.Struct, frozen=True):
    """The content of a lock file."""

    UUID: str
    PID: int


def acquire_lock(run_directory: Path) -> int:
    """Make the run directory (0700) if it is missing, and lock it; return the descriptor that holds
    the lock.

    Raises Conflict when another process holds it.
    """
    run_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(run_directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise Conflict(f"{run_directory.name}: a supervisor is running already") from error
    # The process id of an earlier holder is no longer valid.
    os.ftruncate(descriptor, 0)
    return descriptor


def write_holder(descriptor: int, holder: LockHolder) -> None:
    """Write the holder into the lock file."""
    os.pwrite(descriptor, msgspec.json.encode(holder), 0)


def is_held(run_directory: Path) -> bool:
    """Whether a live supervisor holds the lock of this run directory."""
    try:
        descriptor = os.open(run_directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        # The file is locked, so its process is alive.
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def read_holder(run_directory: Path) -> LockHolder | None:
    """The holder of the lock; None until it is written."""
    try:
        return msgspec.json.decode((run_directory / LOCK_NAME).read_bytes(), type=LockHolder)
    except (OSError, msgspec.DecodeError):
        # The file is being written, or was removed.
        return None


def release_lock(descriptor: int) -> None:
    """Release the lock."""
    os.close(descriptor)

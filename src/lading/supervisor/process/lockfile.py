"""The lock of a run directory: its holder is the only supervisor of that container.

`<run directory>/lock` contains `{"UUID": ..., "PID": ...}` and is held with flock for the life of
the supervisor. The descriptor is closed on exec, so no child keeps the lock of a dead supervisor.
Signal handlers are installed before the file is written, so a process that finds a pid there may
send a signal.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lading.core.errors import Conflict

NAME = "lock"


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The content of a lock file."""

    UUID: str
    PID: int


def acquire(run_directory: Path) -> int:
    """Make the run directory (0700) if it is missing, and lock it; return the descriptor that holds
    the lock.

    Raises Conflict when another process holds it.
    """
    run_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(run_directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        descriptor = os.open(run_directory / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        # Locked: its process lives.
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def read_holder(run_directory: Path) -> LockHolder | None:
    """The holder of the lock; None until it is written."""
    try:
        return msgspec.json.decode((run_directory / NAME).read_bytes(), type=LockHolder)
    except (OSError, msgspec.DecodeError):
        # The file is being written, or was removed.
        return None


def release(descriptor: int) -> None:
    """Release the lock."""
    os.close(descriptor)

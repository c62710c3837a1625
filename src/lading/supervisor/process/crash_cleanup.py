"""Clean-up after a dead supervisor: undoes the steps of its journal.

Mounts need no undoing: they vanished with its mount namespace. The container itself (processes and
cgroup, or an object of the Docker daemon) and the run directory are left. Leases of cached data
ended with the process.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lading import removal
from lading.core.errors import Conflict, LadingError
from lading.supervisor import linux
from lading.supervisor.journal import CONTAINER_STEP, read_journal, unfinished
from lading.supervisor.process import lockfile
from lading.supervisor.supervisor import EngineMaker


async def clean(run_directory: Path, *, engines: EngineMaker) -> None:
    """Undo everything that a dead supervisor left in and outside its run directory, which is
    removed last. Idempotent.

    Raises Conflict when the supervisor is alive, ExecutionError or OSError when something cannot be
    undone.
    """
    if not await asyncio.to_thread(run_directory.exists):
        return
    lock = lockfile.acquire(run_directory)
    try:
        await finish(run_directory, engines=engines)
    finally:
        lockfile.release(lock)


async def finish(run_directory: Path, *, engines: EngineMaker) -> None:
    """Like `clean`, for a caller that holds the lock of the run directory."""
    found = read_journal(run_directory)
    if found is not None:
        opening, lines = found
        if CONTAINER_STEP in unfinished(lines):
            await engines(opening.engine, opening.settings).remove()
    # The lock file goes last: while it exists, no other process takes the directory for a new one.
    linux.discard_directory(run_directory, aside=removal.beside(run_directory), last=lockfile.NAME)


def describe(error: Exception) -> str:
    """One line about the reason of a failed clean-up."""
    if isinstance(error, Conflict):
        return "it is alive; send it a signal first"
    return " ".join((error.message if isinstance(error, LadingError) else str(error)).split())

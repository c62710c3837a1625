"""A supervisor without a forkserver, and the clean-up after a dead one.

It is started for one container by ssh, by a batch system or by hand. It runs in the foreground, or
detached: a copy of this process continues in a session of its own, and this process prints the id
of the copy and exits. In both cases the container's lock in the register is held from the first
write until the run directory is removed. At its end it also cleans up after dead supervisors of
this machine: a batch system may kill all processes of a job at once.

The clean-up undoes the steps of the dead supervisor's journal. Mounts need no undoing: they
vanished with its mount namespace. The container itself (processes and cgroup, or an object of the
Docker daemon) and the run directory remain to be removed. Leases of cached data ended with the
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

import msgspec
from msgspec import structs

from lading.core.errors import Conflict, Invalid, LadingError
from lading.process import removal, telemetry
from lading.supervisor import journal, linux, supervisor_config
from lading.supervisor.engines import EngineMaker, find_engines
from lading.supervisor.journal import CONTAINER_STEP, read_journal, unfinished
from lading.supervisor.process.register import Register, RegisterEntry
from lading.supervisor.process.serving import become_root_of_user, ignore_probes, run_one
from lading.supervisor.supervisor_config import SupervisorConfig

LOG = "supervisor.log"
# Seconds for another attempt at deferred removals.
_TIDY_TIME = 10.0


def run(
    config_text: bytes, *, uuid: str, register: Path, detach: bool, log: str, gpus: str = ""
) -> int:
    """Supervise the container of an assignment; return the exit code of this process.

    `uuid`: the container that it must be for, "" for any. `log`: file for messages of a detached
    supervisor, "" for `supervisor.log` in its run directory. `gpus`: numbers of the usable GPUs, ""
    for those of the assignment. Raises Invalid for an assignment that cannot be carried out,
    Conflict when the container is supervised here already, and the errors of `clean_after_crash`
    when an earlier supervisor left something.
    """
    config = structs.replace(supervisor_config.parse(config_text), lock_directory=str(register))
    if uuid and config.container_uuid != uuid:
        raise Invalid(f"assignment: it is for {config.container_uuid}, not for {uuid}")
    if gpus:
        config = structs.replace(config, visible_gpus=gpus)
    ignore_probes()
    become_root_of_user(config.engine, Path(config.run_directory).parent)
    locks = _Locks(config, Register(register))
    if not detach:
        telemetry.configure(config.log_level, format=config.log_format)
        return locks.run()
    pid = os.fork()
    if pid:
        # The child writes the same entry into the lock file, but a reader of this output may look
        # there at once.
        sys.stdout.buffer.write(msgspec.json.encode(locks.write(pid)) + b"\n")
        sys.stdout.buffer.flush()
        return 0
    code = 1
    try:
        _leave(log or str(Path(config.run_directory) / LOG), config)
        code = locks.run()
    finally:
        os._exit(code)


def clean(entry: RegisterEntry) -> None:
    """Clean up after a dead supervisor. Raises as `clean_after_crash`."""
    if entry.RunDirectory:
        directory = Path(entry.RunDirectory)
        found = read_journal(directory)
        if found is not None:
            become_root_of_user(found[0].engine, directory.parent)
        asyncio.run(clean_after_crash(directory, engines=find_engines().make))


class _Locks:
    """The two locks of a supervisor: in the register, and of its run directory."""

    def __init__(self, config: SupervisorConfig, register: Register) -> None:
        self._config = config
        self._register = register
        self._entry, earlier = register.acquire(config.container_uuid)
        try:
            for directory in {earlier.RunDirectory if earlier else "", config.run_directory} - {""}:
                clean(RegisterEntry(config.container_uuid, 0, directory))
            self._run = journal.acquire_lock(Path(config.run_directory))
        except BaseException:
            # The entry is restored, so that a later attempt finds the run directory to clean.
            if earlier is not None:
                register.write(self._entry, earlier)
            os.close(self._entry)
            raise

    def write(self, pid: int) -> RegisterEntry:
        """Write the holder of both."""
        entry = RegisterEntry(self._config.container_uuid, pid, self._config.run_directory)
        self._register.write(self._entry, entry)
        return entry

    def run(self) -> int:
        """Supervise, and release both."""
        self.write(os.getpid())
        try:
            return run_one(self._config, self._run, engines=find_engines().make)
        finally:
            journal.release_lock(self._run)
            # With the run directory left, the entry stays for the next clean-up.
            if not Path(self._config.run_directory).exists():
                self._register.release(self._config.container_uuid, self._entry)
            # Failures are left to the next supervisor.
            with contextlib.suppress(LadingError, OSError):
                self._register.sweep(clean)
            until = time.monotonic() + _TIDY_TIME
            for directory in removal.places(Path(self._config.run_directory).parent.parent):
                removal.retry(directory, stop=lambda: time.monotonic() > until)


def _leave(log: str, config: SupervisorConfig) -> None:
    """Detach this process from the terminal and the standard streams of its starter."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)
    telemetry.configure(config.log_level, format=config.log_format)


async def clean_after_crash(run_directory: Path, *, engines: EngineMaker) -> None:
    """Undo the effects of a dead supervisor in and outside its run directory; the directory is
    removed last. Idempotent.

    Raises Conflict when the supervisor is alive, ExecutionError or OSError when something cannot be
    undone.
    """
    if not await asyncio.to_thread(run_directory.exists):
        return
    lock = journal.acquire_lock(run_directory)
    try:
        await finish_cleanup(run_directory, engines=engines)
    finally:
        journal.release_lock(lock)


async def finish_cleanup(run_directory: Path, *, engines: EngineMaker) -> None:
    """Like `clean`, for a caller that holds the lock of the run directory."""
    found = read_journal(run_directory)
    if found is not None:
        opening, lines = found
        if CONTAINER_STEP in unfinished(lines):
            await engines(opening.engine, opening.settings).remove()
    # The lock file goes last: while it exists, no other process takes the directory for a new one.
    linux.discard_directory(
        run_directory, aside=removal.beside(run_directory), last=journal.LOCK_NAME
    )


def describe_fault(error: Exception) -> str:
    """One line about the reason of a failed clean-up."""
    if isinstance(error, Conflict):
        return "it is alive; send it a signal first"
    return " ".join((error.message if isinstance(error, LadingError) else str(error)).split())

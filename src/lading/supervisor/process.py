"""The process of one supervisor, forked from the warm parent or started by itself: its surroundings and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

from lading.supervisor import linux, lockfile
from lading.supervisor.assignment import Assignment
from lading.supervisor.run import EngineMaker, supervise

_logger = logging.getLogger("lading.supervisor")


def ignore_probes() -> None:
    """Have USR1 and USR2 do nothing: their default is to kill, and whoever looks at supervisors sends them.

    Handlers, not SIG_IGN, which the container's command would inherit.
    """
    signal.signal(signal.SIGUSR1, _do_nothing)
    signal.signal(signal.SIGUSR2, _do_nothing)


def run_one(assignment: Assignment, lock: int, *, engines: EngineMaker) -> int:
    """Supervise one container in this process, whose run directory is locked by the descriptor `lock`.

    Leaves the machine's mount namespace, removes the run directory at the end; the exit code of the process.
    """
    ignore_probes()
    lockfile.write_holder(lock, lockfile.Holder(UUID=assignment.container_uuid, PID=os.getpid()))
    if os.geteuid() == 0:
        linux.leave_mount_namespace()
    return asyncio.run(_run(assignment, engines))


async def _run(assignment: Assignment, engines: EngineMaker) -> int:
    loop = asyncio.get_running_loop()
    stop, flush = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, flush.set)
    try:
        return await supervise(assignment, engines=engines, stop=stop, flush=flush)
    finally:
        try:
            # Nothing else happens in this process any more, so this may block.
            linux.remove_directory(Path(assignment.run_directory), last=lockfile.NAME)
        except OSError as error:
            _logger.error("container=%s run directory stays: %s", assignment.container_uuid, error)


def _do_nothing(number: int, frame: object) -> None:
    del number, frame

"""Asks the processes of a container to end: TERM to each of them, as batch systems do.

The first process of a container is often a shell, as of `sh -c 'program; next'`. The kernel drops a
TERM for which the first process of a pid namespace has no handler (pid_namespaces(7)), and a shell
tells nothing to its children. So each process gets TERM itself, also one that starts later. Outside
of a container, a shell without a handler would have ended by its TERM: it is stopped, so that it
does not begin its next command until the others have ended and it is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path

from lading.process.concurrency import finish_within
from lading.supervisor import linux
from lading.supervisor.limits.counters import descendants

# Seconds between two looks for processes that have started since.
_LOOK_TIME = 0.05


async def terminate(first: int, *, grace: float, but: Collection[int] = ()) -> bool:
    """Send TERM to each process of the container whose first process is `first`, by its number on
    this machine, but for the processes `but`, which have got it already.

    Return True when the first process has ended, or is alone and does not hear TERM: waiting longer
    would be useless. Return False after `grace` seconds, or at once for a process that is in no
    container. Raises PermissionError when a process belongs to a user whom this one may not signal.
    """
    namespace = _pid_namespace(first)
    if namespace == _pid_namespace(os.getpid()):
        return False
    signalled = set(but)
    if not linux.catches(first, signal.SIGTERM):
        _send(first, namespace, signal.SIGSTOP)
        signalled.add(first)
    loop = asyncio.get_running_loop()
    until = loop.time() + grace
    while loop.time() < until:
        processes = [pid for pid in descendants(first) if linux.is_running(pid)]
        if first not in processes or (
            processes == [first] and not linux.catches(first, signal.SIGTERM)
        ):
            return True
        for pid in processes:
            if pid not in signalled:
                _send(pid, namespace, signal.SIGTERM)
        # A number that another process gets later is signalled again.
        signalled = set(processes)
        await asyncio.sleep(_LOOK_TIME)
    return False


async def stop_through_daemon(
    send: Callable[[str], Awaitable[None]], find_first: Callable[[], int | None], *, grace: float
) -> None:
    """Stop a container of a daemon, whose `send` signals the first process only: TERM, and KILL
    after `grace` seconds. `find_first` returns the number of that process once it is known.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + grace
    await send("SIGTERM")
    # The machine's root may signal the other processes, if the daemon is on this machine.
    while os.geteuid() == 0 and loop.time() < until:
        if first := find_first():
            if await terminate(first, grace=until - loop.time(), but={first}):
                until = loop.time()
            break
        await asyncio.sleep(_LOOK_TIME)
    await asyncio.sleep(until - loop.time())
    await send("SIGKILL")
    await asyncio.sleep(grace)


async def stop_by_init(
    send: Callable[[str], Awaitable[None]], ready: Callable[[], Awaitable[None]], *, grace: float
) -> None:
    """Stop a container whose first process passes TERM on to all others, and ends once they have
    ended: TERM as soon as it is `ready` to hear it, and KILL after `grace` seconds.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + grace
    with suppress(TimeoutError):
        await finish_within(ready(), grace)
        await send("SIGTERM")
    await asyncio.sleep(max(0.0, until - loop.time()))
    await send("SIGKILL")
    await asyncio.sleep(grace)


async def send(pid: int, name: str) -> None:
    """Send a signal of this name to a process. Raises ProcessLookupError when it has ended."""
    os.kill(pid, signal.Signals[name])


def _send(pid: int, namespace: int, number: signal.Signals) -> None:
    # A process that has ended needs no signal.
    with suppress(ProcessLookupError):
        # The descriptor is opened before the check, so that the checked process is the signalled
        # one, even if its number is another's by then.
        process = os.pidfd_open(pid)
        try:
            if _pid_namespace(pid) == namespace:
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)


def _pid_namespace(pid: int) -> int:
    """Number of the pid namespace of a process; 0 when it has ended."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except (FileNotFoundError, ProcessLookupError):
        return 0

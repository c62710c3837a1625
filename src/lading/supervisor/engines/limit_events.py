"""Limit events of a container that a daemon runs: processes killed for lack of memory, and refused
new processes.

The kernel counts them in the container's control group. The daemon removes the group when the
container has ended, so the counts are read when the first process ends. When the daemon is quicker
they are lost and count as 0. Lack of memory is also reported by the daemon itself: by podman in the
container's state, by Docker in the state or in an event after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiodocker
import aiohttp
from aiodocker.exceptions import DockerError

from lading.process.concurrency import finish_within
from lading.supervisor import linux
from lading.supervisor.limits.cgroup import find_hierarchy, memory_kills, refused_processes
from lading.supervisor.limits.counters import find_folders
from lading.supervisor.machine import mount_table

_KILLED = 137
"""Exit code of a process that SIGKILL ended."""
# Seconds in which Docker reports a lack of memory after the end of the container. Docker reports
# both as separate events, in any order, within milliseconds on an idle machine.
_LATE = 1.0


@dataclass(frozen=True, slots=True)
class LimitEvents:
    """Number of processes killed for lack of memory, and of refused new processes."""

    kills: int = 0
    refused: int = 0


async def events_at_end(pid: int) -> LimitEvents:
    """Wait for the end of a container's first process, by its number on this machine; return the
    counts of its group.
    """
    try:
        # The process is opened before its group is looked up: its number cannot be reused then.
        ending = asyncio.ensure_future(linux.ended(pid))
        folders = find_folders(pid, find_hierarchy(mount_table()))
        await ending
    except ProcessLookupError:
        return LimitEvents()
    if folders is None:
        return LimitEvents()
    memory, processes = folders.paths.get("memory"), folders.paths.get("pids")
    return LimitEvents(
        kills=memory_kills(memory, version=folders.version) if memory else 0,
        refused=refused_processes(processes) if processes else 0,
    )


async def reported_late(docker: aiodocker.Docker, state: Mapping[str, Any], name: str) -> bool:
    """Whether Docker reports, within a second, that an ended container lacked memory.

    `state` is the container's own, read after its end; `name` is its name. A container that SIGKILL
    did not end is not asked about.
    """
    if int(state["ExitCode"]) != _KILLED:
        return False
    chosen = json.dumps({"container": [name], "event": ["oom"]})
    reports = docker.events.subscribe(  # type: ignore[no-untyped-call]
        filters=chosen, since=str(state["StartedAt"])
    )
    with contextlib.suppress(DockerError, aiohttp.ClientError, TimeoutError):
        try:
            return await finish_within(reports.get(), _LATE) is not None
        finally:
            # It raises the error that ended the reports.
            await docker.events.stop()  # type: ignore[no-untyped-call]
    return False

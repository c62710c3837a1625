"""Counts of the kernel for a container's limits, for daemons that do not report them.

The daemon removes the control group when the container has ended, so the counts are read when the
first process ends. When the daemon is quicker they are lost and count as 0.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from lading.supervisor import linux
from lading.supervisor.limits.cgroup import find_hierarchy, memory_kills, refused_processes
from lading.supervisor.limits.counters import find_folders
from lading.supervisor.machine import mount_table


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

"""What the kernel counted against a container's limits, where its daemon does not tell.

The daemon removes the control group when the container has ended, so that the counts are read at
the moment at which the first process ends. Where the daemon is quicker they are lost, and taken to
be 0.
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
    """How many processes were killed for lack of memory, and how many new ones were refused."""

    kills: int = 0
    refused: int = 0


async def events_at_end(pid: int) -> LimitEvents:
    """Wait for the end of a container's first process, by its number on this machine: the counts of
    its group.
    """
    try:
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

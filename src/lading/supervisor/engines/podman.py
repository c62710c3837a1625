"""The podman engine: podman's Docker-compatible API on a Unix socket (`podman system service`, `podman.socket`).

Three things differ from Docker's daemon:

- Attaching to a container already makes its first process, up to the moment before the command. So a command that is
  not there is told then; and the process is known before anything runs.
- Podman removes the cgroup at the end, and on version 1 it does not tell that the kernel killed for lack of memory
  (podman 4.3: State.OOMKilled stays false). So the kernel's own count is read at the moment at which the process ends,
  before podman has noticed.
- Its service reads a seccomp profile from a file, and takes masked paths among the security options.
"""

from __future__ import annotations

import asyncio

from lading.supervisor import linux
from lading.supervisor.cgroup import find_hierarchy, memory_kills
from lading.supervisor.counters import find_folders
from lading.supervisor.engines import EngineSettings
from lading.supervisor.engines.docker import Daemon, DockerEngine
from lading.supervisor.machine import mount_table


def make_engine(settings: EngineSettings) -> DockerEngine:
    """One container run by podman's service."""
    return DockerEngine(
        settings,
        Daemon("podman", settings.podman_socket, nvidia=False, reads_options=True, count_kills=kills_at_end),
    )


async def kills_at_end(pid: int) -> int:
    """Wait for the end of a container's first process: how many the kernel killed there for lack of memory."""
    try:
        ending = asyncio.ensure_future(linux.ended(pid))
        folders = find_folders(pid, find_hierarchy(mount_table()))
        await ending
    except ProcessLookupError:
        return 0
    folder = folders.paths.get("memory") if folders else None
    return memory_kills(folder, version=folders.version) if folders and folder else 0

"""The podman engine: the Docker-compatible API of podman's service on a Unix socket.

The service is `podman system service`, or `podman.socket`. Three things differ from Docker's
daemon:

- Attaching to a container already makes its first process, up to the moment before the command. So
  a missing command is reported then; and the process is known before anything runs.
- Podman removes the cgroup at the end, and on version 1 it does not report that the kernel killed
  for lack of memory (podman 4.3: State.OOMKilled stays false). So the kernel's own count is read
  when the process ends, before podman has noticed (`limits.counters`).
- Its service reads a seccomp profile from a file, and takes masked paths among the security
  options.
"""

from __future__ import annotations

from lading.supervisor.engines import EngineSettings
from lading.supervisor.engines.docker import DockerDaemon, DockerEngine


def make_engine(settings: EngineSettings) -> DockerEngine:
    """One container run by podman's service."""
    return DockerEngine(
        settings,
        DockerDaemon(
            "podman", settings.podman_socket, nvidia=False, reads_options=True, makes_early=True
        ),
    )

"""A podman service of one's own for a test session: its API on a socket, its storage in a directory
of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.system.service_process import running_service

# Podman asks for as many files and processes as the system allows; a machine that is a container
# itself has fewer.
_CONFIGURATION = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "{runtime}"
"""


@dataclass(frozen=True)
class PodmanService:
    """A service that answers on `socket`."""

    socket: Path


@contextmanager
def running_podman_service(runtime: str = "runc") -> Iterator[PodmanService]:
    """The API of podman with this runtime. Raises FileNotFoundError when it is not installed."""
    with tempfile.NamedTemporaryFile("w", prefix="lp-", suffix=".conf") as configuration:
        configuration.write(_CONFIGURATION.format(runtime=runtime))
        configuration.flush()
        environment = {"CONTAINERS_CONF": configuration.name}
        with running_service("lp-", _command, Path.exists, environment) as socket:
            yield PodmanService(socket)


def _command(directory: Path, socket: Path) -> list[str]:
    return [
        "podman", "--root", f"{directory}/storage", "--runroot", f"{directory}/run",
        "--tmpdir", f"{directory}/tmp", "system", "service", "--time=0", f"unix://{socket}",
    ]  # fmt: skip

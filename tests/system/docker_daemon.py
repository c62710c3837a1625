"""A Docker daemon of one's own for a test session, without networks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.system.service_process import running_service


@dataclass(frozen=True)
class DockerDaemon:
    """A daemon that answers on `socket`."""

    socket: Path


@contextmanager
def running_docker_daemon() -> Iterator[DockerDaemon]:
    """A daemon without networks, in a directory of its own. Raises FileNotFoundError when dockerd
    is not installed.
    """
    with running_service("ld-", _command, _answers, {}) as socket:
        yield DockerDaemon(socket)


def _command(directory: Path, socket: Path) -> list[str]:
    return [
        "dockerd", "--host", f"unix://{socket}", "--data-root", f"{directory}/data",
        "--exec-root", f"{directory}/exec", "--pidfile", f"{directory}/pid",
        "--bridge=none", "--iptables=false",
    ]  # fmt: skip


def _answers(socket: Path) -> bool:
    ask = ["docker", "--host", f"unix://{socket}", "version"]
    return subprocess.run(ask, capture_output=True, check=False).returncode == 0

"""A Docker daemon of one's own for a test session: started, waited for, ended, its leavings unmounted and removed."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lading.supervisor import linux

_PATIENCE = 180.0


@dataclass(frozen=True)
class DockerDaemon:
    """A daemon that answers on `socket`."""

    socket: Path


@contextmanager
def running_docker_daemon() -> Iterator[DockerDaemon]:
    """A daemon without networks, in a directory of its own. Raises FileNotFoundError when dockerd is not installed."""
    # The path of a Unix socket must be short, so pytest's directories will not do.
    directory = Path(tempfile.mkdtemp(prefix="ld-"))
    process = None
    try:
        socket = directory / "d.sock"
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(_command(directory, socket), stdout=log, stderr=log, start_new_session=True)
        _wait_for(process, socket, directory / "log")
        yield DockerDaemon(socket)
    finally:
        if process is not None:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _remove(directory)


def _command(directory: Path, socket: Path) -> list[str]:
    return [
        "dockerd",
        "--host",
        f"unix://{socket}",
        "--data-root",
        str(directory / "data"),
        "--exec-root",
        str(directory / "exec"),
        "--pidfile",
        str(directory / "pid"),
        "--bridge=none",
        "--iptables=false",
    ]


def _wait_for(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    ask = ["docker", "--host", f"unix://{socket}", "version"]
    while subprocess.run(ask, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"dockerd did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _remove(directory: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while directory.exists():
        with contextlib.suppress(OSError):
            for point in linux.mounts_below(str(directory)):
                linux.unmount(point)
            shutil.rmtree(directory)
        if time.monotonic() > until:
            raise RuntimeError(f"{directory} cannot be removed")

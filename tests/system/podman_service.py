"""A podman service of one's own for a test session: its API on a socket, its storage in a directory of its own."""

from __future__ import annotations

import os
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
# Podman asks for as many files and processes as the system allows; a machine that is a container itself has fewer.
_CONFIGURATION = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""


@dataclass(frozen=True)
class PodmanService:
    """A service that answers on `socket`."""

    socket: Path


@contextmanager
def running_podman_service() -> Iterator[PodmanService]:
    """The API of podman. Raises FileNotFoundError when it is not installed."""
    # The path of a Unix socket must be short, so pytest's directories will not do.
    directory = Path(tempfile.mkdtemp(prefix="lp-"))
    process = None
    try:
        (directory / "containers.conf").write_text(_CONFIGURATION)
        socket = directory / "p.sock"
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "podman", "--root", f"{directory}/storage", "--runroot", f"{directory}/run",
                    "--tmpdir", f"{directory}/tmp", "system", "service", "--time=0", f"unix://{socket}",
                ],
                env=os.environ | {"CONTAINERS_CONF": str(directory / "containers.conf")},
                stdout=log, stderr=log, start_new_session=True,
                cwd=directory,
            )  # fmt: skip
        until = time.monotonic() + _PATIENCE
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"podman did not start: {(directory / 'log').read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
        yield PodmanService(socket)
    finally:
        if process is not None:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _remove(directory)


def _remove(directory: Path) -> None:
    for point in linux.mounts_below(str(directory)):
        linux.unmount(point)
    shutil.rmtree(directory)

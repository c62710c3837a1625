"""A container engine of the benchmark's own: its daemon, if it needs one, and the configuration
that names it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import floors
from lading.supervisor import linux

ENGINES = ("auto", "native", "docker", "podman")
_START = 30.0
# Podman asks for as many files and processes as the system allows; a machine that is a container
# itself has fewer.
_PODMAN = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


@contextlib.contextmanager
def configured(engine: str) -> Iterator[str]:
    """The text of a configuration file with which containers run on `engine`; "" for `auto`.

    Raises RuntimeError when its daemon does not start.
    """
    # The path of a Unix socket must be short.
    with contextlib.ExitStack() as stack:
        containers = {"RuntimeEngine": engine}
        if engine in ("docker", "podman"):
            folder = Path(
                stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="lb-", ignore_cleanup_errors=True)
                )
            )
            # Podman leaves its storage mounted.
            stack.callback(linux.unmount_below, folder)
            start = floors.own_daemon if engine == "docker" else _podman
            host = stack.enter_context(start(folder))
            if not host:
                raise RuntimeError(
                    f"{engine}: no daemon could be started; is it installed, and are you root?"
                )
            containers[f"{engine.capitalize()}Socket"] = host.removeprefix("unix://")
        yield "" if engine == "auto" else json.dumps({"Containers": containers})


@contextlib.contextmanager
def _podman(folder: Path) -> Iterator[str]:
    """The address of podman's service with everything below `folder`, or nothing when it does not
    start.
    """
    configuration, socket = folder / "containers.conf", folder / "podman.sock"
    configuration.write_text(_PODMAN)
    command = [
        "podman", "--root", f"{folder}/storage", "--runroot", f"{folder}/run",
        "--tmpdir", f"{folder}/tmp", "system", "service", "--time=0", f"unix://{socket}",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        try:
            service = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=os.environ | {"CONTAINERS_CONF": str(configuration)},
            )
        except FileNotFoundError:
            yield ""
            return
    try:
        limit = time.monotonic() + _START
        while not socket.exists() and service.poll() is None and time.monotonic() < limit:
            time.sleep(0.1)
        yield f"unix://{socket}" if socket.exists() else ""
    finally:
        service.terminate()
        service.wait(60)

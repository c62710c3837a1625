"""Funnel with its local backend, beside which TES is measured.

The program is taken from `--funnel PATH` or found on PATH; it is not part of this project. It runs
containers with a docker daemon of its own; its database is BoltDB, which is in its default
configuration.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import requests

from bench.floors import make_rootfs, own_daemon
from bench.service import free_port

IMAGE: Final = "tools:1"
_START: Final = 30.0
# Images are there already: the command that fetches them does nothing.
_CONFIG: Final = """\
Database: boltdb
Compute: local
EventWriters: [boltdb]
Server: {{HTTPPort: "{http}", RPCPort: "{rpc}", HostName: localhost}}
RPCClient: {{ServerAddress: "localhost:{rpc}"}}
BoltDB: {{Path: {work}/funnel.db}}
Worker:
  WorkDir: {work}/tasks
  Container:
    DriverCommand: docker
    PullCommand: version
    RunCommand: run -i --rm --network none --name {{{{.Name}}}} {{{{.Image}}}} {{{{.Command}}}}
    StopCommand: rm -f {{{{.Name}}}}
LocalStorage: {{AllowedDirs: [{work}]}}
AmazonS3: {{Disabled: true}}
GoogleStorage: {{Disabled: true}}
"""


def find_funnel(named: Path | None) -> Path | None:
    """The program: that which was named, or the one on PATH."""
    found = shutil.which(str(named) if named else "funnel")
    return Path(found) if found else None


@contextlib.contextmanager
def serving_funnel(program: Path, work: Path) -> Iterator[str]:
    """A running server with everything below the directory `work`; its address. Raises RuntimeError
    when it does not start.
    """
    work.mkdir()
    with own_daemon(work) as host:
        if not host:
            raise RuntimeError("Funnel needs docker, and no daemon could be started")
        rootfs = make_rootfs(work / "rootfs", "sh")
        tar = subprocess.run(
            ["tar", "-C", str(rootfs), "-c", "."], stdout=subprocess.PIPE, check=True
        ).stdout
        command = ["docker", "--host", host, "import", "-", IMAGE]
        subprocess.run(command, input=tar, stdout=subprocess.DEVNULL, check=True)
        http = free_port()
        config = work / "config.yml"
        config.write_text(_CONFIG.format(http=http, rpc=free_port(), work=work))
        with (work / "log").open("wb") as log:
            server = subprocess.Popen(
                [str(program), "server", "run", "--config", str(config)],
                cwd=work,
                env=os.environ | {"DOCKER_HOST": host},
                stdout=log,
                stderr=log,
            )
        try:
            url = f"http://localhost:{http}"
            _await(url, server)
            yield url
        finally:
            server.kill()
            server.wait(30)


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + _START
    while server.poll() is None and time.monotonic() < limit:
        with contextlib.suppress(requests.ConnectionError):
            if requests.get(f"{url}/v1/service-info", timeout=5).ok:
                return
        time.sleep(0.2)
    raise RuntimeError("Funnel did not start")

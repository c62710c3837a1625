"""`python -m tests.docs.services NAME DIR`: a service beside a page, in the namespaces of its
shell, until it is ended.

It writes `DIR/env`, to be sourced, when it serves.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.postgres import BINARIES
from tests.system.slurm_cluster import running_slurm

Variables = Mapping[str, str]


@contextmanager
def slurm(root: Path) -> Iterator[Variables]:
    """A cluster of three nodes of 4 processors, partitions `main` and `last`."""
    with running_slurm(root / "slurm", nodes=3, vcpus=4, ram=8000) as made:
        yield made.environment


@contextmanager
def postgresql(root: Path) -> Iterator[Variables]:
    """A server at the default address, as the package of the distribution makes it."""
    sockets, data = Path("/var/run/postgresql"), root / "postgresql"
    sockets.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", sockets], check=True)
    data.mkdir()
    for path in (sockets, data):
        subprocess.run(["chown", "postgres", path], check=True)

    def as_user(*command: str) -> list[str]:
        return ["su", "postgres", "-s", "/bin/sh", "-c", " ".join(command)]

    subprocess.run(as_user(f"{BINARIES}/initdb", "-A", "scram-sha-256", "--auth-local=peer",
                           "-D", str(data)),
                   check=True, cwd="/", stdout=subprocess.DEVNULL)  # fmt: skip
    server = subprocess.Popen(
        as_user("exec", f"{BINARIES}/postgres", "-D", str(data), "-k", str(sockets)), cwd="/"
    )
    try:
        while not (sockets / ".s.PGSQL.5432").exists():
            time.sleep(0.05)
        yield {}
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


@contextmanager
def registry(root: Path) -> Iterator[Variables]:
    """A registry at 127.0.0.1:5000 with the image bio/tools:1.0."""
    from lading.testing.images import tiny_image
    from tests.system.test_registry import DockerRegistry

    host = "127.0.0.1:5000"
    settings = {"version": "0.1", "log": {"level": "error"}, "http": {"addr": host},
                "storage": {"filesystem": {"rootdirectory": str(root / "registry")}}}  # fmt: skip
    (root / "registry.yml").write_text(json.dumps(settings))
    server = subprocess.Popen(["docker-registry", "serve", str(root / "registry.yml")])
    try:
        _wait_until(lambda: bool(urllib.request.urlopen(f"http://{host}/v2/", timeout=5).status))
        DockerRegistry(host, root / "none").push("bio/tools", "1.0", tiny_image()[1])
        yield {}
    finally:
        server.terminate()
        server.wait(30)


SERVICES: Mapping[str, Callable[[Path], AbstractContextManager[Variables]]] = {
    one.__name__: one for one in (slurm, postgresql, registry)
}


def _wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            if true():
                return
        except OSError:
            if time.monotonic() > until:
                raise
        time.sleep(0.05)


def main(name: str, directory: str) -> int:
    """Serve until TERM."""
    root = Path(directory)
    root.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with SERVICES[name](root) as variables:
        part = root / "env~"
        part.write_text("".join(f"export {key}='{value}'\n" for key, value in variables.items()))
        part.replace(root / "env")
        signal.pause()
    return 0


if __name__ == "__main__":
    os.chdir("/")
    sys.exit(main(*sys.argv[1:]))

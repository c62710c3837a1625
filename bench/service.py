"""A `lading up` of the benchmark's own, reached as any user would: HTTPS, a token, the Python
client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from lading.client.api import ApiClient
from lading.client.servers.environment import find_server

PROGRAMS = ("sh", "date", "head", "split", "mkdir")
SERVER_PID = "LADING_BENCH_PID"
_STOP_LIMIT = 60.0
# Build environments set it; a program of a user keeps its compiled modules.
_NO_CACHE = "PYTHONDONTWRITEBYTECODE"


@contextlib.contextmanager
def serving(
    data: Path,
    *,
    listen: str = "",
    also: Sequence[str] = (),
    config: str = "",
    python: str = sys.executable,
) -> Iterator[dict[str, str]]:
    """A running `lading up` with its data in `data`; yields the environment for its clients.

    It listens on the loopback unless `listen` says HOST:PORT; `also` are addresses of further
    server processes. `config` is the text of its configuration file. `python`: the interpreter of
    the environment whose Lading is measured. The variable LADING_BENCH_PID is the process id of the
    server.

    Raises RuntimeError with its last words when it does not start.
    """
    listen = listen or f"127.0.0.1:{free_port()}"
    if config:
        data.mkdir(parents=True)
        (data / "config.yml").write_text(config)
    environment = {name: value for name, value in os.environ.items() if name != _NO_CACHE}
    further = [word for address in also for word in ("--also", address)]
    with (data.parent / "up.log").open("w+") as log:
        up = subprocess.Popen(
            [python, "-m", "lading", "up", "--data", str(data), "--listen", listen, *further],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
        try:
            assert up.stdout is not None
            if not up.stdout.readline():
                log.seek(0)
                raise RuntimeError(f"lading up did not start: {log.read().strip()[-500:]}")
            yield environment | _variables(data / "env") | {SERVER_PID: str(up.pid)}
        finally:
            _end(up)


def add_image(environment: dict[str, str], *, python: str = sys.executable) -> str:
    """Make an image of this machine's programs that the benchmarks use; its portable data hash.

    `python` is the interpreter of the server's environment: a command of another version may not
    know the server of the data directory.
    """
    words = ["image", "add", "--from-host", *PROGRAMS, "--name", "bench:1", "--json"]
    command = [python, "-m", "lading", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"lading image add failed: {done.stderr.strip()[-500:]}")
    return str(json.loads(done.stdout)["pdh"])


@contextlib.asynccontextmanager
async def connected(environment: dict[str, str]) -> AsyncIterator[ApiClient]:
    """A client of the server that the environment names."""
    server = await asyncio.to_thread(find_server, environment, Path("/nonexistent"))
    async with server.transport() as transport:
        yield ApiClient(transport, server.token)


def _end(up: subprocess.Popen[str]) -> None:
    up.terminate()
    try:
        up.wait(_STOP_LIMIT)
    except subprocess.TimeoutExpired:
        up.kill()
        up.wait()
    if up.stdout is not None:
        up.stdout.close()


def _variables(path: Path) -> dict[str, str]:
    lines = (line.removeprefix("export ") for line in path.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines)


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])

"""A server process on a core of its own, and what it costs: processor time and memory, as the
kernel counts them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.api.places import Place
from lading.wiring.directory import ensure_certificate

SERVER_CORE: Final = 0
CLIENT_CORE: Final = 1
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
_LIMIT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers HTTP on a Unix socket, and HTTPS at `address` if that is not empty.
    `database` is the process of PostgreSQL's server, if any.
    """

    pid: int
    socket: Path
    database: int | None = None
    address: str = ""

    def spent(self) -> tuple[float, float, float]:
        """Seconds of processor time that the server, its database and this client have had."""
        times = os.times()
        return spent(self.pid), self._database(), times.user + times.system

    def peak(self) -> float:
        """The most memory that the server has had at once (VmHWM), MB."""
        return self._status("VmHWM")

    def _status(self, name: str) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1000
        raise RuntimeError(f"process {self.pid} has no {name}")

    def memory(self) -> float:
        """The memory that the server has now (VmRSS), MB."""
        return self._status("VmRSS")

    def _database(self) -> float:
        if self.database is None:
            return 0.0
        children = Path(f"/proc/{self.database}/task/{self.database}/children").read_text().split()
        return spent(self.database) + sum(spent(int(one)) for one in children)


@contextlib.contextmanager
def api(place: Place, profile: Path | None = None) -> Iterator[Server]:
    """The real server process on the data directory of a place; cProfile's account of it goes to
    the file `profile`.
    """
    directory, address = place.directory, f"127.0.0.1:{free_port()}"
    profiler = [] if profile is None else ["-m", "cProfile", "-o", str(profile)]
    command = [
        sys.executable, *profiler, "-m", "lading.wiring.server", "--data", str(directory.root),
        "--listen", address, "--parent", str(os.getpid()),
    ]  # fmt: skip
    ensure_certificate(
        directory.certificate, directory.key, host="127.0.0.1", now=datetime.now(UTC)
    )
    with running(command, directory.root / "server.log") as pid:
        server = place.server
        database = server.process.pid if server is not None and server.process is not None else None
        yield Server(pid, directory.socket, database, address)


@contextlib.contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[int]:
    """A process on SERVER_CORE that writes a line to the pipe `--ready-fd` when it serves; its
    id.
    """
    read, write = os.pipe()
    pinned = ["taskset", "-c", str(SERVER_CORE), *command, "--ready-fd", str(write)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            pinned, stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=(write,)
        )
    os.close(write)
    try:
        if os.read(read, 64) != b"ready\n":
            raise RuntimeError(f"{' '.join(command[1:4])} did not start: {log.read_text()[-2000:]}")
        yield process.pid
    finally:
        os.close(read)
        process.terminate()
        try:
            process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def on_core(number: int) -> Iterator[None]:
    """Run this process on one core only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {number} & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def spent(pid: int) -> float:
    """Seconds of processor time that a process has had; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) * _TICK

"""Servers on one PostgreSQL, and the dispatchers that join them.

Each made-up machine is a dispatcher with a token and a data directory of its own, that reaches its
server over TCP and TLS. It does not share the capacity of this machine with the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from bench.api.process import spent
from bench.paired import processor_time
from bench.service import SERVER_PID, free_port, serving
from lading.wiring.directory import DataDirectory
from lading.wiring.further_dispatcher import invite
from tests.postgres import PostgresServer

_SLOTS_OF_MACHINE = 2
_STOP_LIMIT = 60.0
_CONFIG = {"Local": {"VCPUs": _SLOTS_OF_MACHINE, "RAM": 4 << 30, "ShareDirectory": ""}}


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor time of the servers, of PostgreSQL, and of dispatchers with all that
    they have started.
    """

    servers: float
    database: float
    dispatchers: float

    def since(self, before: Spent) -> Spent:
        """What was spent after `before`."""
        return Spent(
            self.servers - before.servers,
            self.database - before.database,
            self.dispatchers - before.dispatchers,
        )


@dataclass
class Site:
    """Running servers. `environment` is for clients of the first one."""

    environment: dict[str, str]
    addresses: list[str]
    data: Path
    postgres: PostgresServer
    dispatchers: tuple[int, ...] = ()

    def spent(self) -> Spent:
        """The processor time until now. Raises RuntimeError when a server is gone."""
        assert self.postgres.process is not None
        database = self.postgres.process.pid
        return Spent(
            sum(spent(pid) for pid in self._servers()),
            spent(database) + sum(spent(pid) for pid in _children(database)),
            sum(processor_time(pid) for pid in self.dispatchers) / 1000,
        )

    def _servers(self) -> list[int]:
        children = _children(int(self.environment[SERVER_PID]))
        found = [
            pid
            for pid in children
            if b"lading.wiring.server" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        if len(found) != len(self.addresses):
            raise RuntimeError(f"{len(found)} of {len(self.addresses)} servers run")
        return found

    @contextlib.contextmanager
    def joined(self, count: int, *, made_up_slots: int = 0) -> Iterator[None]:
        """That many dispatchers, the servers taken in turns. With `made_up_slots` they run nothing
        and have so many slots each. Raises RuntimeError when one does not start.
        """
        with contextlib.ExitStack() as stack:
            started = []
            for number in range(count):
                folder = self.data.parent / f"machine{number}"
                folder.mkdir(exist_ok=True)
                file = self._membership(number, folder)
                command = [sys.executable, "-m", "bench.machines.made_up", str(file)]
                if not made_up_slots:
                    (folder / "config.yml").write_text(json.dumps(_CONFIG))
                    command = [sys.executable, "-m", "lading", "dispatch", "--join", str(file)]
                    command += ["--data", str(folder / "data")]
                    command += ["--config", str(folder / "config.yml")]
                else:
                    command.append(str(made_up_slots))
                started.append(stack.enter_context(_running(command, folder / "log")))
            for process in started:
                assert process.stdout is not None
                if not process.stdout.readline():
                    raise RuntimeError(f"a dispatcher did not start: {process.args!r}")
            self.dispatchers = tuple(process.pid for process in started)
            try:
                yield
            finally:
                self.dispatchers = ()

    def _membership(self, number: int, folder: Path) -> Path:
        file = folder / "join"
        if not file.exists():
            directory = DataDirectory(self.data)
            membership = invite(directory, file)
            address = self.addresses[number % len(self.addresses)]
            membership = replace(membership, api=f"https://{address}")
            file.write_bytes(msgspec.json.encode(membership))
        return file


@contextlib.contextmanager
def serving_site(work: Path, postgres: PostgresServer, *, servers: int) -> Iterator[Site]:
    """That many server processes with a database of their own and no dispatcher; everything below
    the directory `work`, which is made. Raises RuntimeError when they do not start.
    """
    work.mkdir()
    config = {
        "PostgreSQL": {"Connection": dict(asyncio.run(postgres.fresh()))},
        "Containers": {"Dispatcher": "none"},
    }
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(servers)]
    with serving(
        work / "data", listen=addresses[0], also=addresses[1:], config=json.dumps(config)
    ) as environment:
        yield Site(environment, addresses, work / "data", postgres)


@contextlib.contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=out, text=True, env=environment
        )
    assert process.stdout is not None
    with process.stdout:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _children(pid: int) -> list[int]:
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in words]

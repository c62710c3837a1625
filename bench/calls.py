"""`python -m bench.calls [CHECKOUT]`: processor time of the server for each call of a container.

No container runs: the calls are those that a dispatcher and a supervisor make for one whose command
ends at once. With another checkout a server of each runs, and each phase is measured in turns, so
that both see the same machine. The other checkout needs an environment of its own in `.venv`.

With `--sizes` the size of each server's database for a container follows, by table and index.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.account import processes
from bench.figures import percentile
from bench.machines.made_up import LOG_FILES, log_of, manifest_of
from bench.requests import request_body
from bench.service import SERVER_PID, add_image, serving
from lading.client.api import ApiClient
from lading.client.transport import HttpTransport
from lading.core.quantities import format_time
from lading.wiring.directory import DataDirectory

_CONFIG: Final = json.dumps({"Containers": {"Dispatcher": "none"}})
_AT_ONCE: Final = 4
_NANOSECONDS: Final = 1_000_000
# Seconds in which what follows the last answer of a phase ends.
_PAUSE: Final = 0.3
_SUM: Final = "sum"
# KiB of a table or an index for a container.
_LEAST_SHOWN: Final = 0.1
_Work = Callable[["Side", int], Awaitable[None]]


@dataclass
class Side:
    """One server, the containers of the present round, and milliseconds of a call by phase."""

    name: str
    server: int
    image: str
    admin: ApiClient
    dispatcher: ApiClient
    containers: list[str] = field(default_factory=list)
    supervisors: dict[str, ApiClient] = field(default_factory=dict)
    is_started: bool = False
    """Whether the lock makes the containers Running, so that they are not reported as such."""
    times: dict[str, list[float]] = field(default_factory=dict)
    threads: dict[str, list[float]] = field(default_factory=dict)

    async def create(self, number: int) -> None:
        """Commit a request for one container."""
        body = request_body(self.image, ["sh", "-c", 'echo "$0" > number', str(number)])
        made = await self.admin.create("container_requests", body)
        self.containers.append(made["container_uuid"])

    async def lock(self, number: int) -> None:
        """Lock a container, as the dispatcher does."""
        uuid = self.containers[number]
        body: dict[str, Any] = {"known": True}
        if self.is_started:
            body["ready_images"] = [self.image]
        locked = await self.dispatcher.action("containers", uuid, "lock", body=body)
        token = locked["supervisor_token"]
        self.supervisors[uuid] = ApiClient(self.dispatcher.transport, token)

    async def run(self, number: int) -> None:
        """Report that a container runs, unless its lock has said so."""
        if self.is_started:
            return
        uuid = self.containers[number]
        changes = {"state": "Running", "started_at": _now()}
        await self.supervisors[uuid].update("containers", uuid, changes, select=("uuid", "state"))

    async def finish(self, number: int) -> None:
        """Report the end of a container, with its output and its log."""
        uuid = self.containers[number]
        output, log = f"{uuid}\n".encode(), log_of(uuid)
        body: dict[str, Any] = {
            "container": {
                "state": "Complete",
                "exit_code": 0,
                "finished_at": _now(),
                "usage": {"memory": 1589248.0, "cpu": 0.01},
            },
            "collections": {
                "output": manifest_of(output, {"number": len(output)}),
                "log": manifest_of(log, LOG_FILES),
            },
            "blocks": [base64.b64encode(block).decode() for block in (output, log)],
        }
        await self.supervisors[uuid].action("containers", uuid, "finish", body=body)

    async def ask(self, number: int) -> None:  # noqa: ARG002 - each call is the same
        """The cheapest call: the user of the token."""
        await self.admin.action("users", None, "current", method="GET")


_PHASES: Final[dict[str, _Work]] = {
    "users/current": Side.ask,
    "create": Side.create,
    "lock": Side.lock,
    "Running": Side.run,
    "finish": Side.finish,
}


def main() -> int:
    """Measure; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.calls", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("checkout", type=Path, nargs="?", help="another checkout, beside this one")
    parser.add_argument("--containers", type=int, default=200, help="containers of a round")
    parser.add_argument(
        "--sizes", action="store_true", help="KiB of the database by table and index"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each server")
    parser.add_argument(
        "--started", action="store_true", help="locks of this checkout make containers Running"
    )
    options = parser.parse_args()
    pythons = {"this": sys.executable}
    if options.checkout:
        pythons = {"other": str(options.checkout / ".venv/bin/python"), **pythons}
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        environments = {}
        for name, python in pythons.items():
            (work / name).mkdir()
            served = serving(work / name / "data", config=_CONFIG, python=python)
            environments[name] = stack.enter_context(served)
        asyncio.run(_measure(work, environments, options))
        if options.sizes:
            count = options.containers * (options.rounds + 1)
            for name in pythons:
                print("\n".join(_sizes(name, DataDirectory(work / name / "data"), count)))
    return 0


async def _measure(
    work: Path, environments: dict[str, dict[str, str]], options: argparse.Namespace
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        sides = []
        for name, environment in environments.items():
            directory = DataDirectory(work / name / "data")
            transport = HttpTransport(unix_socket=directory.socket)
            await stack.enter_async_context(transport)
            secrets = directory.secrets()
            root = int(environment[SERVER_PID])
            sides.append(
                Side(
                    name,
                    next(pid for pid, kind in processes(root) if kind == "server"),
                    await asyncio.to_thread(add_image, environment),
                    ApiClient(transport, secrets.admin_token),
                    ApiClient(transport, secrets.dispatch_token),
                    is_started=options.started and name == "this",
                )
            )
        # The first round warms caches and is not counted.
        for number in range(options.rounds + 1):
            for side in sides:
                side.containers.clear()
            for phase, work_of in _PHASES.items():
                for side in sides if number % 2 else reversed(sides):
                    await _turn(side, phase, work_of, options.containers, counted=number > 0)
    print("\n".join(_table(sides)))


async def _turn(side: Side, phase: str, work: _Work, count: int, *, counted: bool) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def call(number: int) -> None:
        async with gate:
            await work(side, number)

    await asyncio.sleep(_PAUSE)
    main, every = _processor_time(side.server)
    await asyncio.gather(*(call(number) for number in range(count)))
    await asyncio.sleep(_PAUSE)
    main_after, every_after = _processor_time(side.server)
    if counted:
        side.times.setdefault(phase, []).append((main_after - main) / count)
        others = (every_after - every) - (main_after - main)
        side.threads.setdefault(phase, []).append(others / count)


def _processor_time(pid: int) -> tuple[float, float]:
    """Milliseconds of processor time of the main thread, and of all threads that live."""
    times = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            times[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return times[pid] / _NANOSECONDS, sum(times.values()) / _NANOSECONDS


def _table(sides: Sequence[Side]) -> list[str]:
    """Medians of the rounds, main thread + other threads."""
    lines = [f"{'ms of processor time':24}" + "".join(f"{side.name:>20}" for side in sides)]
    for phase in _PHASES:
        cells = [
            f"{percentile(side.times[phase], 0.5):.2f} + {percentile(side.threads[phase], 0.5):.2f}"
            for side in sides
        ]
        lines.append(f"{phase:24}" + "".join(f"{cell:>20}" for cell in cells))
    sums = [
        sum(percentile(side.times[phase], 0.5) for phase in list(_PHASES)[1:]) for side in sides
    ]
    lines.append(f"{_SUM:24}" + "".join(f"{value:>20.2f}" for value in sums))
    return lines


def _sizes(name: str, directory: DataDirectory, containers: int) -> list[str]:
    """KiB of the database for a container: in all, and of each table and index that has some."""
    with contextlib.closing(sqlite3.connect(directory.database)) as connection:
        rows = connection.execute(
            "SELECT name, sum(pgsize) / 1024.0 FROM dbstat GROUP BY name ORDER BY 2 DESC"
        ).fetchall()
    lines = [f"{name}: {sum(size for _, size in rows) / containers:.2f} KiB a container"]
    lines += [
        f"{table:56}{size / containers:8.2f}"
        for table, size in rows
        if size / containers >= _LEAST_SHOWN
    ]
    return lines


def _now() -> str:
    return format_time(datetime.now(UTC))


if __name__ == "__main__":
    sys.exit(main())

"""What chaos is let loose on: many small containers, watched all the time, and counted at the end.

Each container writes its number to its output, and runs a command whose line nobody else has, so
that whoever looks through /proc sees every one that is alive, and sees two if there are two. A
container whose command was killed has a result, exit code 137; whatever else is killed, it ends
with 0, in one attempt or another.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.core.data import manifest
from lading.core.errors import LadingError
from tests.system.cluster import is_alive

MARK = f"0.37{os.getpid():07d}"
"""Seconds that a command sleeps, and what tells its process from all others."""
ATTEMPTS = 30
KILLED = 137
_PAGE = 500
Strike = Callable[[], Awaitable[str | None] | str | None]
Rows = list[dict[str, Any]]


Make = Callable[[int, int], dict[str, object]]
Expect = Callable[[Mapping[str, Any], Mapping[str, Any]], Sequence[int] | None]


@dataclass(kw_only=True)
class Load:
    """Containers, as many as `count`, submitted a few at a time. `once` repeats nothing by itself.

    `make` is the request of a number and of an attempt to send it. `expect` gives the exit codes
    that a request and its container may end with; None for a request that was cancelled, of which
    nothing more is asked.
    """

    client: ApiClient
    once: ApiClient
    blocks: BlockClient
    count: int = 0
    pause: float = 0.0
    make: Make = field(default=lambda number, attempt: request(number, attempt))
    expect: Expect = field(default=lambda request, container: (0,))
    uuids: list[str] = field(default_factory=list)
    _attempts: Iterator[int] = field(default_factory=itertools.count)

    async def submit(self) -> None:
        """Commit the requests, whatever happens to the server meanwhile.

        One whose answer was lost is there all the same, so that each repetition is another
        container with its own mark.
        """
        for number in range(self.count):
            await self.commit(number)
            await asyncio.sleep(self.pause)

    async def commit(self, number: int) -> str:
        """Commit one request; its uuid."""

        async def send() -> dict[str, Any]:
            return await self.once.create(
                "container_requests", self.make(number, next(self._attempts))
            )

        uuid = str((await persist(send))["uuid"])
        self.uuids.append(uuid)
        return uuid

    async def wait_final(self, say: Callable[[str], None] = lambda _: None) -> Rows:
        """All requests once they are Final."""
        while True:
            rows = await persist(self.requests)
            left = sum(row["state"] != "Final" for row in rows) + len(self.uuids) - len(rows)
            say(f"{left} requests are not final")
            if not left:
                found: Rows = rows
                return found
            await asyncio.sleep(1.0)

    async def check(self, rows: Rows, doubles: Sequence[str]) -> list[str]:
        """What is wrong with how it ended, if anything."""
        faults = [f"two at a time: {one}" for one in sorted(set(doubles))]
        # A request whose creation was repeated after a lost answer is one more, not one less.
        containers = {
            one["uuid"]: one for one in await self.containers(row["container_uuid"] for row in rows)
        }
        for row in rows:
            container = containers.get(row["container_uuid"], {})
            codes = self.expect(row, container)
            if codes is None:
                continue
            if container.get("state") != "Complete" or container.get("exit_code") not in codes:
                faults.append(
                    f"{row['uuid']}: {container.get('state')} {container.get('exit_code')}"
                    f" {container.get('runtime_status')} after {row['container_count']}"
                )
            for name in ("output_uuid", "log_uuid"):
                fault = await self._read(row, name)
                if fault:
                    faults.append(fault)
        return faults

    async def requests(self) -> Rows:
        """The records of all requests that were committed."""
        rows: Rows = []
        for at in range(0, len(self.uuids), _PAGE):
            batch = self.uuids[at : at + _PAGE]
            rows += await self.client.list(
                "container_requests", filters=[["uuid", "in", batch]], limit=_PAGE
            )
        return rows

    async def containers(self, wanted: Iterable[str | None]) -> Rows:
        """The records of these containers."""
        uuids, found = sorted({uuid for uuid in wanted if uuid}), list[dict[str, Any]]()
        for at in range(0, len(uuids), _PAGE):
            found += await self.client.list(
                "containers", filters=[["uuid", "in", uuids[at : at + _PAGE]]], limit=_PAGE
            )
        return found

    async def _read(self, row: dict[str, Any], name: str) -> str | None:
        """Read every block of the output or log; the output must be the number of the container."""
        if row[name] is None:
            return f"{row['uuid']}: no {name}"
        text = (await self.client.get("collections", row[name]))["manifest_text"]
        data = b"".join([await self.blocks.get(locator) for locator in manifest.locators(text)])
        number = row["name"].split()[1]
        if name == "output_uuid" and data != f"{number}\n".encode():
            return f"{row['uuid']}: output is {data[:40]!r}, not {number}"
        return None


def script(number: int, attempt: int, *, then: str = "", more: float = 0.0) -> str:
    """The shell script of a container: it writes its number, does `then`, and sleeps, `more`
    seconds longer.
    """
    longer = f" {more:g}" if more else ""
    return (
        f"echo begin {number}; echo {number} >/out/number; "
        f"{then}exec sleep {MARK}{attempt:07d}{longer}"
    )


def request(number: int, attempt: int, **more: object) -> dict[str, object]:
    """The request with this number; `attempt` is another for each that is sent."""
    return {
        "name": f"chaos {number}",
        "state": "Committed",
        "priority": 500,
        "container_image": "tools:1",
        "command": ["sh", "-ec", script(number, attempt)],
        "cwd": "/out",
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
        "runtime_constraints": {"vcpus": 1, "ram": 64 << 20},
        "container_count_max": ATTEMPTS,
        "use_existing": False,
        **more,
    }


async def persist(act: Callable[[], Awaitable[Any]]) -> Any:
    """What it answers, asked again for as long as the server is away."""
    while True:
        try:
            return await act()
        except LadingError:
            await asyncio.sleep(0.1)


async def watch(
    doubles: list[str],
    registers: Sequence[Path],
    *,
    starts: dict[str, set[int]] | None = None,
    period: float = 0.05,
) -> None:
    """Note for ever when two live processes carry one mark, or two live supervisors one container.

    `registers` are directories of lock files, one for each container that is supervised. `starts`
    gathers by mark the process ids that were seen, `period` seconds apart.
    """
    while True:
        for line, pids in marks().items():
            mark = line.split()[1]
            if len(pids) > 1:
                doubles.append(f"command {mark}")
            if starts is not None:
                starts.setdefault(mark, set()).update(pids)
        doubles += [
            f"supervisors of {uuid}"
            for uuid, count in Counter(_supervised(registers)).items()
            if count > 1
        ]
        await asyncio.sleep(period)


def marks() -> Mapping[str, list[int]]:
    """The live commands: process ids by mark."""
    found: dict[str, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                line = (path / "cmdline").read_bytes()
                if line.startswith(b"sleep\0" + MARK.encode()) and is_alive(int(path.name)):
                    found.setdefault(line.replace(b"\0", b" ").decode(), []).append(int(path.name))
    return found


def supervisors(registers: Sequence[Path]) -> dict[str, list[int]]:
    """The live supervisors: process ids by container."""
    found: dict[str, list[int]] = {}
    for register in registers:
        for lock in [*register.glob("*-dz642-*/lock"), *register.glob("crunch-run-*-dz642-*.lock")]:
            with suppress(OSError, ValueError, KeyError):
                said = json.loads(lock.read_text())
                if is_alive(said["PID"]):
                    found.setdefault(said["UUID"], []).append(said["PID"])
    return found


def _supervised(registers: Sequence[Path]) -> list[str]:
    return [uuid for uuid, pids in supervisors(registers).items() for _ in set(pids)]


def killer(pids: Callable[[], Sequence[int]], chance: Random) -> Callable[[], str | None]:
    """Kills one of these processes, if there is one, and says so."""

    def strike() -> str | None:
        found = pids()
        if not found:
            return None
        with suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
        return "killed"

    return strike


async def rage(
    strikes: Mapping[str, Callable[[], str | None]],
    chance: Random,
    *,
    period: float,
    done: Counter[str],
    most: int = 0,
) -> None:
    """Strike, one kind after the other in an order of chance, about every `period` seconds.

    `most`: how often; 0 is for ever.
    """
    while True:
        for kind in chance.sample(sorted(strikes), len(strikes)):
            if most and done.total() >= most:
                return
            await asyncio.sleep(chance.uniform(0.5, 1.5) * period)
            if await asyncio.to_thread(strikes[kind]) is not None:
                done[kind] += 1

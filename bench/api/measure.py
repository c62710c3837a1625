"""All measurements of the API on one database after another, with the floor in the same run."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import tempfile
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Final, TypeVar

import uvloop

from bench.api import further, plans, reads, writes
from bench.api.http import drive, get, post
from bench.api.places import Place, has_postgres, postgres_place, sqlite_place
from bench.api.process import CLIENT_CORE, Server, api, on_core, running
from bench.api.sample import body, name
from bench.figures import Figure, absent, calls

MEMORY: Final = 250.0
_Result = TypeVar("_Result")
Part = Callable[[Place, Server], Coroutine[None, None, list[Figure]]]
PARTS: Final[dict[str, Part]] = {
    "create": lambda place, server: writes.create(place, server, count=3000),
    "reuse": lambda place, server: writes.reuse(place, server, count=2500),
    "lock": lambda place, server: writes.lock(place, server, count=3000),
    "get": lambda place, server: reads.single(place, server, count=10_000),
    "pages": lambda place, server: reads.pages(place, server, count=200),
    "further": lambda place, server: further.further(place, server, count=50),
    "others": lambda place, server: reads.others(place, server, count=50),
}
DATABASES: Final = ("sqlite", "postgresql")


def measure(
    *,
    count: int,
    databases: Collection[str] = DATABASES,
    parts: Collection[str] = tuple(PARTS),
    profile: Path | None = None,
) -> list[Figure]:
    """Figures of the floor, then of each database with `count` finished requests; query plans are
    printed.

    With `profile`, a directory, no plans: what the server did with its time goes to a file for each
    database.
    """
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
    figures = floor() if profile is None else []
    if "sqlite" in databases:
        with sqlite_place(count) as place:
            figures += _measured(place, parts, profile)
    if "postgresql" in databases and not has_postgres():
        figures.append(absent("postgresql", "is not installed (Debian package postgresql)"))
    elif "postgresql" in databases:
        with postgres_place(count) as place:
            figures += _measured(place, parts, profile)
    return figures


def floor() -> list[Figure]:
    """What the same web server and client do when there is next to nothing behind a route."""
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        socket = Path(folder) / "socket"
        command = [
            sys.executable,
            "-m",
            "bench.api.floor",
            "--socket",
            str(socket),
            "--database",
            f"{folder}/db",
        ]
        with running(command, Path(folder) / "log") as pid, on_core(CLIENT_CORE):
            server = Server(pid, socket)
            posted = _run(
                drive(
                    server,
                    [post("/", "", body(name(one), 0)) for one in range(20_000)],
                    connections=16,
                )
            )
            got = _run(drive(server, [get("/", "")] * 20_000, connections=16))
    return [
        calls("floor: starlette, one SQLite insert", posted),
        calls("floor: starlette, a get", got),
    ]


def _measured(place: Place, parts: Collection[str], profile: Path | None) -> list[Figure]:
    figures: list[Figure] = []
    with api(place, profile and profile / place.name) as server, on_core(CLIENT_CORE):
        for part in parts:
            place.warm()
            figures += _run(PARTS[part](place, server))
        peak = server.peak()
    memory = Figure(
        name="memory of the server, at most", unit="MB", count=0, target=f"< {MEMORY:g} MB",
        met=peak < MEMORY, note=f"{peak:.0f} MB",
    )  # fmt: skip
    if profile is None:
        plans.show(place)
    place.sweep()
    return [
        dataclasses.replace(one, name=f"{place.name}: {one.name}") for one in (*figures, memory)
    ]


def _run(work: Coroutine[None, None, _Result]) -> _Result:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)

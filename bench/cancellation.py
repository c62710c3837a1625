"""What others wait for while very many requests that wait are cancelled by one call: the call,
lists, counts, the queue of dispatchers, `why` and writes meanwhile, and the time until all rows are
written.

All requests are cancelled, and in a second round those of one project, which a filter names. With
`beside`, the interpreter of another environment, the same is measured with its Lading.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.account import processes
from bench.api.places import has_postgres
from bench.figures import Figure, absent, durations
from bench.mass_requests import memory_of
from bench.service import SERVER_PID, connected, serving
from bench.waiting_projects import find_project, waiting_project
from lading.client.api import ApiClient

MOST_CALL: Final = 1.0
MOST_SETTLED: Final = 300.0
MOST_READ: Final = 50.0
_LIMIT: Final = 1800.0
_COMMITTED: Final = [["state", "=", "Committed"]]
_QUEUED: Final = [["state", "=", "Queued"], ["priority", ">", 0]]
_ORDER: Final = ["priority desc", "created_at asc", "uuid asc"]
# Seconds between two calls of a kind.
_PAUSE: Final = 0.05


def measure(*, waiting: int, databases: Collection[str], beside: str) -> list[Figure]:
    """The figures with so many requests that wait, on SQLite and on PostgreSQL."""
    figures: list[Figure] = []
    pythons = [*([("before, ", beside)] if beside else []), ("", sys.executable)]
    for database in databases:
        if database == "postgresql" and not has_postgres():
            figures.append(absent("postgresql", "is not installed (Debian package postgresql)"))
            continue
        for label, python in pythons:
            for scope in ("all", "a project"):
                with waiting_project(database, waiting, python) as data:
                    with serving(data, python=python) as environment:
                        found = asyncio.run(_measure(environment, scope))
                    figures += [
                        replace(one, name=f"{label}{database}, {scope}: {one.name}")
                        for one in found
                    ]
    return figures


async def _measure(environment: dict[str, str], scope: str) -> list[Figure]:
    root = int(environment[SERVER_PID])
    server = next(pid for pid, kind in processes(root) if kind == "server")
    async with connected(environment) as client, asyncio.timeout(_LIMIT):
        project = await find_project(client)
        filters = [] if scope == "all" else [["owner_uuid", "=", project["uuid"]]]
        (newest,) = await client.list("container_requests", filters=_COMMITTED, limit=1)
        calls = _calls(client, newest["uuid"], filters)
        seconds: dict[str, list[float]] = {what: [] for what in calls}
        before = _processor_time(server)
        began = time.perf_counter()
        one = await client.action(
            "container_requests", None, "cancel_matching", body={"filters": filters}
        )
        taken = time.perf_counter() - began
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for what, call in calls.items():
                tasks.create_task(_repeat(call, seconds[what], ended))
            while not one["finished_at"]:
                await asyncio.sleep(0.2)
                one = await client.action(
                    "container_requests", None, "cancellation", method="GET", id=one["id"]
                )
            settled = time.perf_counter() - began
            ended.set()
    if one["error"]:
        raise RuntimeError(f"the cancellation ended early: {one}")
    spent = (_processor_time(server) - before) / max(1, one["cancelled"])
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return [
        durations("the call", [taken], p99_limit=MOST_CALL * 1000),
        durations(
            f"all rows are written, {one['cancelled']:,}",
            [settled],
            p99_limit=MOST_SETTLED * 1000,
            note=f"{one['cancelled'] / settled:,.0f} a second, {spent * 1e6:.0f} us of the server"
            f" each, with the calls beside; load {load}; {memory_of(environment)}",
        ),
        *(
            durations(f"{what}, meanwhile", times, p99_limit=MOST_READ)
            for what, times in seconds.items()
        ),
    ]


def _calls(
    client: ApiClient, newest: str, filters: list[Any]
) -> dict[str, Callable[[], Awaitable[object]]]:
    brief = ["uuid", "state", "priority"]
    return {
        "list of what is cancelled": lambda: client.list(
            "container_requests", filters=[*_COMMITTED, *filters], limit=100, select=brief
        ),
        "list of all Committed": lambda: client.list(
            "container_requests", filters=_COMMITTED, limit=100, select=brief
        ),
        "count of what is cancelled": lambda: client.request(
            "GET",
            "container_requests",
            params={"filters": [*_COMMITTED, *filters], "limit": 0, "count": "exact"},
        ),
        "newest requests": lambda: client.list(
            "container_requests", order=["created_at desc"], limit=20, select=brief
        ),
        "queue of dispatchers": lambda: client.list(
            "containers", filters=_QUEUED, order=_ORDER, limit=100, select=brief
        ),
        "why": lambda: client.action("container_requests", newest, "why", method="GET"),
        "create a link": lambda: client.create("links", {"link_class": "bench", "name": "bench"}),
    }


async def _repeat(
    call: Callable[[], Awaitable[object]], seconds: list[float], ended: asyncio.Event
) -> None:
    while not ended.is_set():
        began = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - began)
        await asyncio.sleep(_PAUSE)


def _processor_time(pid: int) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

"""What others wait for while a project with 60,000 requests that wait goes into the trash, and
comes out again: the call itself, the calls of others meanwhile, and the time until the last
container has its new priority.

With `beside`, the interpreter of another environment, the same is measured with its Lading, in
turns on copies of one database.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from bench.api.places import has_postgres
from bench.figures import Figure, absent, durations
from bench.mass_requests import memory_of
from bench.service import connected, serving
from bench.waiting_projects import find_project, waiting_project
from lading.client.api import ApiClient

MOST_READ: Final = 100.0
"""Milliseconds of a call of others (p99) meanwhile."""
_LIMIT: Final = 600.0
_TIMEOUT: Final = 300.0


def measure(*, waiting: int, databases: Collection[str], beside: str) -> list[Figure]:
    """The figures with so many requests that wait, on SQLite and on PostgreSQL."""
    figures: list[Figure] = []
    pythons = [("", sys.executable), *([("before, ", beside)] if beside else [])]
    for name in databases:
        if name == "postgresql" and not has_postgres():
            figures.append(absent("postgresql", "is not installed (Debian package postgresql)"))
            continue
        for label, python in pythons:
            with (
                waiting_project(name, waiting, python) as data,
                serving(data, python=python) as found,
            ):
                figures += [
                    replace(one, name=f"{label}{name}: {one.name}")
                    for one in asyncio.run(_measure(found, waiting))
                ]
    return figures


async def _measure(environment: dict[str, str], waiting: int) -> list[Figure]:
    async with connected(environment) as client, asyncio.timeout(_LIMIT):
        project = await find_project(client)
        figures = [Figure(name="memory before", unit="", count=1, note=memory_of(environment))]
        for verb, has_priority in (("trash", False), ("untrash", True)):
            figures += await _change(client, project["uuid"], verb, has_priority=has_priority)
        figures.append(
            Figure(
                name=f"memory after, {waiting:,} waiting",
                unit="",
                count=1,
                note=memory_of(environment),
            )
        )
    return figures


async def _change(
    client: ApiClient, project: str, verb: str, *, has_priority: bool
) -> list[Figure]:
    """Put the project into the trash, or take it out, and call as others do until all is done."""
    operator = "=" if has_priority else ">"
    left: list[Any] = [["state", "=", "Queued"], ["priority", operator, 0]]
    reads: list[float] = []
    writes: list[float] = []
    ended = asyncio.Event()

    async def call(seconds: list[float], what: str) -> None:
        while not ended.is_set():
            began = time.perf_counter()
            if what == "list":
                await client.list("collections", limit=20, select=["uuid"])
            else:
                await client.create("links", {"link_class": "bench", "name": "bench"})
            seconds.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call(reads, "list"))
        tasks.create_task(call(writes, "write"))
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await client.request("POST", f"groups/{project}/{verb}", timeout=_TIMEOUT)
        taken = time.perf_counter() - began
        # One request of the template has no priority of its own.
        while len(await client.list("containers", filters=left, limit=2, select=["uuid"])) > 1:
            await asyncio.sleep(0.1)
        total = time.perf_counter() - began
        await asyncio.sleep(0.2)
        ended.set()
    return [
        durations(f"{verb}: the call", [taken], note=f"all priorities after {total:.1f} s"),
        durations(f"list, during {verb}", reads, p99_limit=MOST_READ),
        durations(f"create a link, during {verb}", writes, p99_limit=MOST_READ),
    ]

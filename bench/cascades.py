"""What others wait for while a project with 60,000 requests that wait goes into the trash, and
comes out again: the call itself, the calls of others meanwhile, and the time until the last
container has its new priority.

With `beside`, the interpreter of another environment, the same is measured with its Lading, in
turns on copies of one database.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.api.places import has_postgres
from bench.figures import Figure, absent, durations
from bench.mass_requests import memory_of
from bench.queue import DECLINED, postgres_databases, postgres_site, sqlite_site
from bench.requests import submit
from bench.service import add_image, connected, serving
from lading.client.api import ApiClient

MOST_READ: Final = 100.0
"""Milliseconds of a call of others (p99) meanwhile."""
_COMMAND: Final = ["true"]
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
            with _filled(name, waiting, python) as data, serving(data, python=python) as found:
                figures += [
                    replace(one, name=f"{label}{name}: {one.name}")
                    for one in asyncio.run(_measure(found, waiting))
                ]
    return figures


@contextlib.contextmanager
def _filled(database: str, waiting: int, python: str) -> Iterator[Path]:
    """A data directory with a project of so many requests that wait; nothing runs them."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        data = folder / "data"
        if database == "sqlite":
            site = sqlite_site(data)
        else:
            server = stack.enter_context(postgres_databases(("lading",)))
            site = postgres_site(data, server.connection("lading"))
        with serving(data, config=json.dumps(site.config), python=python) as environment:
            template = asyncio.run(_submit(environment, add_image(environment)))
        site.copy(template, waiting)
        (data / "config.yml").write_text(json.dumps({**site.config, **DECLINED}))
        yield data
        shutil.rmtree(data, ignore_errors=True)


async def _submit(environment: dict[str, str], image: str) -> str:
    async with connected(environment) as client:
        project = await client.create("groups", {"group_class": "project", "name": "long queue"})
        return await submit(client, image, _COMMAND, priority=0, owner_uuid=project["uuid"])


async def _measure(environment: dict[str, str], waiting: int) -> list[Figure]:
    async with connected(environment) as client, asyncio.timeout(_LIMIT):
        (project,) = await client.list("groups", filters=[["name", "=", "long queue"]])
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

"""What a long queue costs: lists, explanations, and the first container after a restart, with
100,000 that wait.

A request is submitted to a real server; its rows, and those of its container, are copied in the
database while the server is away. The copies differ in their uuids, names and times.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg

from bench import mass_requests
from bench.api.places import has_postgres
from bench.figures import Figure, absent, durations
from bench.requests import submit
from bench.service import add_image, connected, free_port, serving
from lading.client.api import ApiClient
from lading.core.quantities import format_time
from tests.postgres import PostgresServer

MOST_FIRST: Final = 3.0
MOST_READ: Final = 0.05
MOST_CANCEL: Final = 60.0
_SHORT: Final = 3000
_PACE_TIME: Final = 15.0
_COMMAND: Final = ["sh", "-c", 'date +%s.%N; echo "$0" > number', "template"]
DECLINED: Final = {"Containers": {"Dispatcher": "none"}}
_TIMES: Final = 15
_PATIENCE: Final = 120.0
_LADING: Final = (sys.executable, "-m", "lading")


def measure(
    *, waiting: int, restarts: int, created: int, turns: int, databases: Collection[str]
) -> list[Figure]:
    """The figures with so many requests that wait, on SQLite and on PostgreSQL; `created` of them
    are made through the API, and rates are measured in `turns`.

    Raises RuntimeError when a command fails.
    """
    figures: list[Figure] = []
    counts = _Counts(waiting, restarts, created, turns)
    if "sqlite" in databases:
        with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
            figures += _measured(sqlite_site(Path(folder) / "data"), counts, "sqlite")
            long, short = (sqlite_site(Path(folder) / name) for name in ("long", "short"))
            figures += _paces(long, short, counts, "sqlite")
    if "postgresql" not in databases:
        return figures
    if not has_postgres():
        return [*figures, absent("postgresql", "is not installed (Debian package postgresql)")]
    names = ("lading", "long", "short")
    with (
        postgres_databases(names) as server,
        tempfile.TemporaryDirectory(prefix="lading-bench-") as folder,
    ):
        one, long, short = (
            postgres_site(Path(folder) / name, server.connection(name)) for name in names
        )
        figures += _measured(one, counts, "postgresql")
        figures += _paces(long, short, counts, "postgresql")
    return figures


@dataclass(frozen=True, slots=True)
class _Counts:
    """Requests that wait, restarts, requests that the API creates, and turns."""

    waiting: int
    restarts: int
    created: int
    turns: int


@dataclass(frozen=True, slots=True)
class Site:
    """A data directory, the configuration of its database, and what multiplies a request there
    (arguments: its uuid, how often).
    """

    data: Path
    config: dict[str, Any]
    copy: Callable[[str, int], None]


def sqlite_site(data: Path) -> Site:
    return Site(data, {}, functools.partial(multiply, data / "db.sqlite"))


def postgres_site(data: Path, where: dict[str, str | int]) -> Site:
    config = {"PostgreSQL": {"Connection": where}}
    return Site(data, config, functools.partial(_multiply_postgres, where))


def _paces(long: Site, short: Site, counts: _Counts, database: str) -> list[Figure]:
    """Containers a second with all that wait and with a short queue."""
    if not counts.turns:
        return []
    for site, count in ((long, counts.waiting), (short, _SHORT)):
        with serving(site.data, config=json.dumps(site.config)) as environment:
            template = asyncio.run(_submit(environment, add_image(environment)))
        site.copy(template, count)
    figures = mass_requests.paces(long.data, short.data, turns=counts.turns, seconds=_PACE_TIME)
    return [replace(one, name=f"{database}: {one.name}") for one in figures]


def _measured(site: Site, counts: _Counts, database: str) -> list[Figure]:
    data, config = site.data, site.config
    waiting, restarts = counts.waiting, counts.restarts
    with serving(data, config=json.dumps(config)) as environment:
        image = add_image(environment)
        template = asyncio.run(_submit(environment, image))
    floor = durations("lading up with an empty queue, until it is ready", _starts(data, restarts))
    site.copy(template, waiting - counts.created)
    (data / "config.yml").write_text(json.dumps({**config, **DECLINED}))
    with serving(data) as environment:
        figures = asyncio.run(_reads(environment, waiting - counts.created))
        if counts.created:
            figures += asyncio.run(mass_requests.create(environment, image, counts.created))
        figures += _commands(environment, waiting)
    (data / "config.yml").write_text(json.dumps(config))
    figures += [floor, _restarts(data, waiting, restarts)]
    (data / "config.yml").write_text(json.dumps({**config, **DECLINED}))
    with serving(data) as environment:
        figures += asyncio.run(mass_requests.cancel_all(environment, within=MOST_CANCEL))
    return [replace(one, name=f"{database}: {one.name}") for one in figures]


@contextlib.contextmanager
def postgres_databases(names: Collection[str]) -> Iterator[PostgresServer]:
    """A server with empty databases of these names, gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="lading-bench-"))
    if os.getuid() == 0:
        shutil.chown(home, "postgres")
    server = PostgresServer(home, free_port(), ())
    try:
        server.initialise()
        server.start()
        for name in names:
            asyncio.run(server.sql(f"CREATE DATABASE {name} TEMPLATE template0"))
        yield server
    finally:
        server.stop()
        shutil.rmtree(home)


async def _submit(environment: dict[str, str], image: str) -> str:
    async with connected(environment) as client:
        return await submit(client, image, _COMMAND, priority=0)


def _multiply_postgres(where: Mapping[str, str | int], template: str, count: int) -> None:
    """As `multiply`, in a database of PostgreSQL."""
    asyncio.run(_copy(where, template, count))


async def _copy(where: Mapping[str, str | int], template: str, count: int) -> None:
    connection = await asyncpg.connect(
        host=where["host"], port=where["port"], user=where["user"], database=where["dbname"]
    )
    find = "SELECT * FROM {} WHERE uuid = $1"
    request = dict(await connection.fetchrow(find.format("container_requests"), template))
    container = dict(
        await connection.fetchrow(find.format("containers"), request["container_uuid"])
    )
    begun = datetime.now(UTC) - timedelta(seconds=count)
    for row, make in ((container, _container), (request, _request)):
        table = "containers" if row is container else "container_requests"
        rows = (tuple((row | make(row, number, begun)).values()) for number in range(count))
        await connection.copy_records_to_table(table, records=rows, columns=list(row))
    await connection.execute("ANALYZE")
    await connection.close()


def multiply(database: Path, template: str, count: int) -> None:
    """Copy a request and its container so often, each copy with priority, and newer than the one
    before.
    """
    connection = sqlite3.connect(database)
    connection.row_factory = sqlite3.Row
    request = dict(_one(connection, "container_requests", template))
    container = dict(_one(connection, "containers", request["container_uuid"]))
    begun = datetime.now(UTC) - timedelta(seconds=count)
    for row, make in ((container, _container), (request, _request)):
        table = "containers" if row is container else "container_requests"
        marks = ", ".join("?" for _ in row)
        rows = ((row | make(row, number, begun)).values() for number in range(count))
        connection.executemany(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})",
            (tuple(one) for one in rows),
        )
    connection.commit()
    connection.close()


def _one(connection: sqlite3.Connection, table: str, uuid: str) -> sqlite3.Row:
    found: sqlite3.Row = connection.execute(
        f"SELECT * FROM {table} WHERE uuid = ?",
        (uuid,),
    ).fetchone()
    return found


def _uuid(like: str, number: int) -> str:
    return f"{like[:12]}q{number:014d}"


def _container(row: dict[str, Any], number: int, begun: datetime) -> dict[str, Any]:
    when = format_time(begun + timedelta(seconds=number))
    # Before those that the API creates.
    priority = (500 << 50) - number
    keys = dict.fromkeys(("reuse_key", "broad_key"), f"{number:064x}")
    made = {"created_at": when, "modified_at": when, "priority": priority}
    return {"uuid": _uuid(row["uuid"], number), **made, **keys}


def _request(row: dict[str, Any], number: int, begun: datetime) -> dict[str, Any]:
    when = format_time(begun + timedelta(seconds=number))
    return {
        "uuid": _uuid(row["uuid"], number),
        "container_uuid": _uuid(row["container_uuid"], number),
        "created_at": when,
        "modified_at": when,
        "priority": 500,
    }


async def _reads(environment: dict[str, str], waiting: int) -> list[Figure]:
    """Calls over HTTPS, one at a time: what the server needs, and the way there."""
    async with connected(environment) as client:
        rows = await client.list(
            "container_requests", limit=1, order=["created_at desc"], select=["uuid"]
        )
        newest = rows[0]["uuid"]
        middle = _uuid(newest, waiting // 2)
        brief = ["uuid", "created_at", "state", "priority", "name", "command", "container_uuid"]
        committed = [["state", "=", "Committed"]]
        queued = [["state", "=", "Queued"]]
        page: dict[str, Any] = {"limit": 20, "select": brief}
        asked: dict[str, Callable[[], Any]] = {
            "list, default order": lambda: client.list("container_requests", limit=100),
            "list of Committed, default order": lambda: client.list(
                "container_requests", filters=committed, limit=100
            ),
            "list of Committed, default order, counted": lambda: client.list(
                "container_requests", filters=committed, limit=100, count="exact"
            ),
            "list of Committed, created_at desc": lambda: client.list(
                "container_requests", filters=committed, order=["created_at desc"], **page
            ),
            "list of Queued containers, default order": lambda: client.list(
                "containers", filters=queued, limit=100
            ),
            "why of the newest": lambda: _why(client, newest),
            "why of one in the middle": lambda: _why(client, middle),
        }
        return [
            durations(
                f"{what}, {waiting:,} waiting",
                await _timed(call),
                p99_limit=None if what.endswith("counted") else MOST_READ * 1000,
            )
            for what, call in asked.items()
        ]


async def _why(client: ApiClient, uuid: str) -> object:
    found: object = await client.action("container_requests", uuid, "why", method="GET")
    return found


async def _timed(call: Callable[[], Any]) -> list[float]:
    found = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        await call()
        found.append(time.perf_counter() - began)
    return found


def _commands(environment: dict[str, str], waiting: int) -> list[Figure]:
    """Whole commands, the start of the program included; beside them one that asks nothing."""
    commands = {
        "lading --version (the program alone)": ("--version",),
        "lading request list": ("request", "list"),
        "lading request list --state Committed": ("request", "list", "--state", "Committed"),
        "lading request why last": ("request", "why", "last"),
    }
    return [
        durations(f"{what}, {waiting:,} waiting", [_run(arguments, environment) for _ in range(5)])
        for what, arguments in commands.items()
    ]


def _run(arguments: Sequence[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        (*_LADING, *arguments), env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"lading {' '.join(arguments)} failed: {done.stderr.strip()[-500:]}")
    return time.perf_counter() - began


def _starts(data: Path, count: int) -> list[float]:
    """Seconds until lading up says that it is ready."""
    found = []
    for _ in range(count):
        began = time.time()
        with serving(data):
            found.append(time.time() - began)
    return found


def _restarts(data: Path, waiting: int, count: int) -> Figure:
    found, ready, memory = list[float](), list[float](), ""
    for _ in range(count):
        began = time.time()
        with serving(data) as environment:
            ready.append(time.time() - began)
            found.append(asyncio.run(_first(environment, began)) - began)
            memory = mass_requests.memory_of(environment)
    shown = ", ".join(f"{seconds:.2f}" for seconds in ready)
    return durations(
        f"from the start of lading up to user code, {waiting:,} waiting",
        found,
        p99_limit=MOST_FIRST * 1000,
        note=f"lading up says that it is ready after {shown} s; {memory}",
    )


async def _first(environment: dict[str, str], began: float) -> float:
    """When the first container that has ended since `began` ran its command (seconds since
    1970).
    """
    since = format_time(datetime.fromtimestamp(began, UTC))
    async with connected(environment) as client, asyncio.timeout(_PATIENCE):
        while True:
            ended = await client.list(
                "containers",
                filters=[["state", "=", "Complete"], ["started_at", ">", since]],
                order=["started_at asc"],
                select=["uuid"],
                limit=1,
            )
            if ended:
                return await _told(client, ended[0]["uuid"])
            await asyncio.sleep(0.2)


async def _told(client: ApiClient, container: str) -> float:
    filters = [["container_uuid", "=", container]]
    (request,) = await client.list("container_requests", filters=filters, select=["uuid"])
    path = f"container_requests/{request['uuid']}/log/{container}/stdout.txt"
    text = (await client.raw("GET", path)).body.decode()
    return float(text.split()[1])

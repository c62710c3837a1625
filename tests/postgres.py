"""A PostgreSQL server for tests: Debian's own, started on a private directory and port, thrown away
at the end.

The server refuses to run as root: then it runs as the user `postgres`. Durability is left out,
except where asked for.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from lading.store import schema
from lading.store.database import Database
from lading.store.databases.postgres import PostgresDatabase
from lading.testing.world import add_first_records, make_seal
from tests.reality import need

BINARIES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql/bin"))
_USER = "postgres"
_PATIENCE = 120.0
_UNSAFE = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off")


class Cleaner:
    """Replaces the records of all tables on a connection that it keeps, in a thread of its own:
    tests have an event loop each, and a new connection first reads the catalogue of all tables.

    This takes 2 ms. `CREATE DATABASE ... TEMPLATE` takes 30 ms, as it copies the files of 300
    tables and indexes, and its connections are new.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._connection: Any = None
        self._deletion = ""
        self._insertion = ""

    async def clean(self) -> None:
        """Leave no record in any table."""
        await self._run(self._clean())

    async def keep(self) -> None:
        """Copy all records, for `restore`."""
        await self._run(self._keep())

    async def restore(self) -> bool:
        """Leave the records of `keep`; False if none were kept."""
        if not self._insertion:
            return False
        await self._run(self._clean(self._insertion))
        return True

    def close(self) -> None:
        """Close the connection and end the thread."""
        if self._connection is not None:
            closing = asyncio.run_coroutine_threadsafe(self._connection.close(), self._loop)
            closing.result(_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _clean(self, more: str = "") -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                host="127.0.0.1", port=self._server.port, user=_USER, database="lading"
            )
            self._deletion = "; ".join(f"DELETE FROM {name}" for name in await self._names())
        await self._connection.execute(f"{self._deletion}; {more}")

    async def _keep(self) -> None:
        insertions = []
        await self._connection.execute("CREATE SCHEMA first")
        for name in await self._names():
            if await self._connection.fetchval(f"SELECT EXISTS (SELECT FROM {name})"):
                await self._connection.execute(f"CREATE TABLE first.{name} AS TABLE {name}")
                insertions.append(f"INSERT INTO {name} SELECT * FROM first.{name}")
        self._insertion = "; ".join(insertions)

    async def _names(self) -> list[str]:
        rows = await self._connection.fetch(
            "SELECT tablename FROM pg_tables"
            " WHERE schemaname = 'public' AND tablename <> 'schema_versions'"
        )
        return [row[0] for row in rows]


@dataclass
class PostgresServer:
    """One server and its directory."""

    root: Path
    port: int
    options: tuple[str, ...] = _UNSAFE
    process: subprocess.Popen[bytes] | None = None
    cleaner: Cleaner | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def initialise(self) -> None:
        """Make its directory, whose parent the user that it runs as can write to."""
        setup = ("--no-sync", "-A", "trust", "-U", _USER, "-E", "UTF8", "--locale", "C.UTF-8")
        self.run("initdb", *setup, "-D", self.root / "data")

    def start(self) -> None:
        """Start it; ready when this returns."""
        command = [
            BINARIES / "postgres",
            "-D",
            self.root / "data",
            "-p",
            str(self.port),
            "-k",
            self.root,
        ]
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60", *self.options]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(_as_user([*command, *options]), stdout=log, stderr=log)
        self.run(
            "pg_isready",
            "-q",
            "-h",
            self.root,
            "-p",
            str(self.port),
            "-t",
            "10",
            patience=_PATIENCE,
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop it: "fast" is in good order, "immediate" as if it had crashed."""
        if self.process is not None:
            self.run("pg_ctl", "-D", self.root / "data", "-m", mode, "-w", "stop")
            self.process.wait(_PATIENCE)
            self.process = None

    def run(self, program: str, *arguments: object, patience: float = 0) -> None:
        """Run one of PostgreSQL's programs, for that many seconds again while it fails."""
        until = time.monotonic() + patience
        while True:
            command = _as_user([BINARIES / program, *arguments])
            done = subprocess.run(command, capture_output=True, check=False, timeout=_PATIENCE)
            if done.returncode == 0:
                return
            if time.monotonic() >= until:
                raise AssertionError(
                    f"{program}: {done.stderr.decode()} {(self.root / 'log').read_text()[-2000:]}"
                )

    def connection(self, name: str = "lading") -> dict[str, str | int]:
        """`PostgreSQL.Connection` for a database of this server."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "dbname": name,
            "user": _USER,
            "password": "secret",
        }

    async def sql(self, text: str, name: str = "postgres") -> None:
        """Carry out statements on a connection of their own."""
        connection = await asyncpg.connect(
            host="127.0.0.1", port=self.port, user=_USER, database=name
        )
        try:
            await connection.execute(text)
        finally:
            await connection.close()

    async def fresh(self) -> Mapping[str, str | int]:
        """A new, empty database."""
        name = f"fresh{next(self.numbers)}"
        await self.sql(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.connection(name)


@contextmanager
def running_postgres(options: tuple[str, ...] = _UNSAFE) -> Iterator[PostgresServer]:
    """A server of its own, gone at the end."""
    root = Path(tempfile.mkdtemp(prefix="lading-postgres-"))
    try:
        if os.getuid() == 0:
            account = pwd.getpwnam(_USER)
            os.chown(root, account.pw_uid, account.pw_gid)
        server = PostgresServer(root, _free_port(), options)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            if server.cleaner is not None:
                server.cleaner.close()
            server.stop("immediate")
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of the session."""
    need((BINARIES / "postgres").exists(), "PostgreSQL")
    with running_postgres() as server:
        yield server


async def emptied(server: PostgresServer) -> Mapping[str, str | int]:
    """The one database that tests of records share, prepared and without records."""
    connection = server.connection()
    if server.cleaner is None:
        await server.sql("CREATE DATABASE lading TEMPLATE template0")
        database = await PostgresDatabase.open(connection, seal=make_seal())
        await schema.prepare(database, now="now")
        await database.close()
        server.cleaner = Cleaner(server)
    await server.cleaner.clean()
    return connection


async def open_emptied(server: PostgresServer) -> Database:
    """That database, opened."""
    return await PostgresDatabase.open(await emptied(server), seal=make_seal())


async def open_with_records(server: PostgresServer) -> Database:
    """That database with the first records of a world, opened."""
    if server.cleaner is not None and await server.cleaner.restore():
        return await PostgresDatabase.open(server.connection(), seal=make_seal())
    database = await open_emptied(server)
    await add_first_records(database)
    assert server.cleaner is not None
    await server.cleaner.keep()
    return database


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _as_user(command: list[object]) -> list[str]:
    user = (
        ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
        if os.getuid() == 0
        else []
    )
    return [*user, *map(str, command)]

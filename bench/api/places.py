"""Where the databases are kept that are measured: filled once, in the user's cache directory, and
used again.

A place is named after all that decides what is in it: the statements that make the schema, the
samples, their number. Places of earlier schemas go when a new one is made. What a run adds is taken
away before the next one.

The server of PostgreSQL refuses to run as root: then it runs as `postgres`, with its files in the
cache of that user.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import socket
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from bench.api import filling, people, sample, templates
from bench.api.sample import Site
from lading.core.records.record_types import RECORDS
from lading.store import schema
from lading.store.database import Database, Dialect, Value
from lading.store.databases.postgres import PostgresDatabase, PostgresDialect
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite import SqliteDatabase, SqliteDialect
from lading.wiring.directory import DataDirectory
from tests.postgres import BINARIES, PostgresServer

_PARTS: Final = (sample, templates, people)
_DURABLE: Final = ("-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB")


@dataclass(frozen=True, slots=True)
class Place:
    """A data directory with a filled database. `server` is that of PostgreSQL, which runs."""

    directory: DataDirectory
    site: Site
    count: int
    server: PostgresServer | None = None

    @property
    def name(self) -> str:
        """The kind of database."""
        return "sqlite" if self.server is None else "postgresql"

    async def open(self) -> Database:
        """The database; close it."""
        if self.server is not None:
            return await PostgresDatabase.open(self.server.connection(), seal=_seal(self.directory))
        return SqliteDatabase(self.directory.database, seal=_seal(self.directory))

    @contextlib.asynccontextmanager
    async def scratch(self) -> AsyncIterator[Database]:
        """An empty database of the same kind, gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
            made: Database
            if self.server is None:
                made = SqliteDatabase(Path(folder) / "db", seal=_seal(self.directory))
            else:
                await self.server.sql("DROP DATABASE IF EXISTS scratch")
                await self.server.sql("CREATE DATABASE scratch TEMPLATE template0")
                made = await PostgresDatabase.open(
                    self.server.connection("scratch"), seal=_seal(self.directory)
                )
            try:
                await schema.prepare(made, now=templates.created_at(0))
                yield made
            finally:
                await made.close()

    def explain(self, sql: str, values: tuple[Value, ...]) -> list[str]:
        """The plan of a query, in lines."""
        if self.server is not None:
            return asyncio.run(_explain(self.server.connection(), sql, values))
        connection = sqlite3.connect(self.directory.database)
        connection.execute("PRAGMA case_sensitive_like = on")
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
        connection.close()
        return [str(row[3]) for row in rows]

    def warm(self) -> None:
        """Read the database once, so that it is not the disk that is measured; some machines soon
        forget it.
        """
        files = (
            [self.directory.database]
            if self.server is None
            else (self.server.root / "data" / "base").rglob("[0-9]*")
        )
        for path in files:
            if path.is_file():
                with path.open("rb", buffering=0) as file:
                    while file.read(1 << 24):
                        pass

    def sweep(self) -> None:
        """Take away what a run has added."""
        statements = _added(self.site)
        if self.server is not None:
            asyncio.run(self.server.sql("; ".join(statements), "lading"))
            return
        connection = sqlite3.connect(self.directory.database)
        for one in statements:
            connection.execute(one)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    @property
    def dialect(self) -> Dialect:
        """How this database speaks."""
        return SqliteDialect() if self.server is None else PostgresDialect()


@contextlib.contextmanager
def sqlite_place(count: int) -> Iterator[Place]:
    """The SQLite database with `count` finished requests."""
    with _locked(_cache(), f"sqlite-{count}", SqliteDialect()) as root:
        directory, site = _directory(root)
        _configure(directory, {})
        _fill(
            root,
            site,
            lambda: filling.fill_sqlite(_emptied(directory), site, _seal(directory), count),
        )
        place = Place(directory, site, count)
        place.sweep()
        yield place


@contextlib.contextmanager
def postgres_place(count: int) -> Iterator[Place]:
    """The PostgreSQL database with `count` finished requests; its server runs meanwhile. Needs
    Debian's packages.
    """
    with _locked(_cache(), f"postgresql-{count}", PostgresDialect()) as root:
        directory, site = _directory(root)
        # Beside it, in the cache of the user whom the server runs as.
        with (
            _locked(_cache("postgres"), f"postgresql-{count}", PostgresDialect()) as home,
            _serving(home) as server,
        ):
            where = server.connection()
            _configure(directory, {"PostgreSQL": {"Connection": where}})
            _fill(home, site, lambda: _fill_emptied(server, site, _seal(directory), count))
            place = Place(directory, site, count, server)
            place.sweep()
            yield place


def has_postgres() -> bool:
    """Whether Debian's packages are installed."""
    return (BINARIES / "postgres").exists()


@contextlib.contextmanager
def _serving(home: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(home, _free_port(), _DURABLE)
    if not (home / "data" / "PG_VERSION").exists():
        server.initialise()
    (home / "data" / "postmaster.pid").unlink(missing_ok=True)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _cache(user: str = "") -> Path:
    """The cache directory of this user, or of another one whom root may act as."""
    if user and os.getuid() == 0:
        account = pwd.getpwnam(user)
        path = Path(account.pw_dir) / ".cache" / "lading" / "bench"
        path.mkdir(parents=True, exist_ok=True)
        for one in (path, path.parent, path.parent.parent):
            os.chown(one, account.pw_uid, account.pw_gid)
        return path
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "lading" / "bench" / user
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def _locked(cache: Path, name: str, dialect: Dialect) -> Iterator[Path]:
    """A directory of one's own for a kind of database; those that it takes the place of are
    removed.
    """
    root = cache / f"{name}-{_key(dialect)}"
    with contextlib.ExitStack() as held:
        for old in cache.glob(f"{name}-*"):
            if old != root and old.is_dir():
                with contextlib.suppress(BlockingIOError), _flock(old):
                    shutil.rmtree(old)
        root.mkdir(exist_ok=True)
        os.chown(root, cache.stat().st_uid, cache.stat().st_gid)
        held.enter_context(_flock(root))
        yield root


@contextlib.contextmanager
def _flock(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _directory(root: Path) -> tuple[DataDirectory, Site]:
    directory = DataDirectory(root / "data")
    directory.prepare()
    return directory, Site(directory.secrets(entropy=os.urandom(400)).cluster_id)


def _configure(directory: DataDirectory, more: Mapping[str, object]) -> None:
    # The trail of the samples is to stay, however old it is.
    content = {"AuditLogs": {"MaxAge": 10.0**9}, **more}
    (directory.root / "config.yml").write_text(json.dumps(content))


def _fill(root: Path, site: Site, fill: Callable[[], Coroutine[None, None, None]]) -> None:
    """Fill the database, unless it was filled for this cluster before."""
    mark = root / "filled"
    if mark.exists() and mark.read_text() == site.cluster:
        return
    began = time.monotonic()
    asyncio.run(fill())
    mark.write_text(site.cluster)
    print(f"{root.name}: filled in {time.monotonic() - began:.0f} s, kept in {root}")


def _emptied(directory: DataDirectory) -> Path:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{directory.database}{suffix}").unlink(missing_ok=True)
    return directory.database


async def _fill_emptied(server: PostgresServer, site: Site, seal: Seal, count: int) -> None:
    await server.sql("DROP DATABASE IF EXISTS lading")
    await server.sql("CREATE DATABASE lading TEMPLATE template0")
    await filling.fill_postgres(server.connection(), site, seal, count)


def _seal(directory: DataDirectory) -> Seal:
    return Seal(directory.secrets().system_root_token, entropy=os.urandom)


def _key(dialect: Dialect) -> str:
    text = "".join(
        [*(schema.create_table(dialect, kind) for kind in RECORDS if kind.stored)]
        + [one for kind in RECORDS if kind.stored for one in schema.create_indexes(dialect, kind)]
        + [Path(str(part.__file__)).read_text() for part in _PARTS]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _added(site: Site) -> tuple[str, ...]:
    """The statements that delete what Alice, others and the dispatchers have made."""
    alice = site.alice
    own = f"SELECT container_uuid FROM container_requests WHERE owner_uuid = '{alice}'"
    return (
        "DELETE FROM allocations",
        "DELETE FROM request_dependencies",
        f"DELETE FROM containers WHERE uuid IN ({own}) AND runtime_user_uuid = '{alice}'",
        f"DELETE FROM container_requests WHERE owner_uuid = '{alice}'",
        f"DELETE FROM collections WHERE owner_uuid = '{alice}'",
        "DELETE FROM api_client_authorizations WHERE container_uuid > ''",
        (
            f"DELETE FROM api_client_authorizations WHERE owner_uuid = '{alice}'"
            f" AND uuid <> '{site.token_uuid('alice')}'"
        ),
        # What those have made who opened pages.
        "DELETE FROM api_client_authorizations WHERE expires_at > ''",
        "DELETE FROM containers WHERE created_at > '2026-06-01'",
        "DELETE FROM container_requests WHERE created_at > '2026-06-01'",
        "DELETE FROM logs WHERE created_at > '2026-06-01'",
    )


async def _explain(
    where: Mapping[str, str | int], sql: str, values: tuple[Value, ...]
) -> list[str]:
    connection = await asyncpg.connect(
        host=where["host"], port=where["port"], user=where["user"], database=where["dbname"]
    )
    rows = await connection.fetch(
        f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql}", *values
    )
    await connection.close()
    return [str(row[0]) for row in rows]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

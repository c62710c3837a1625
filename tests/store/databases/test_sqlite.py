"""What is particular to SQLite: group commit, checkpoints, errors in our words."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import Corrupt, Full, Invalid, Unavailable
from lading.core.records.record_types import LINKS
from lading.store import records, schema
from lading.store.databases import sqlite
from lading.store.databases.sqlite import SqliteDatabase, SqliteDialect
from lading.testing.world import make_seal


async def opened(path: Path) -> SqliteDatabase:
    database = SqliteDatabase(path / "db", seal=make_seal())
    await schema.prepare(database, now="now")
    return database


async def writer_of(database: SqliteDatabase) -> sqlite3.Connection:
    """The connection of the transactions that write: all of them share it."""
    async with database.writing() as tx:
        shared: Any = tx
        connection: sqlite3.Connection = shared.connection
        return connection


async def add(database: SqliteDatabase, uuid: str) -> None:
    async with database.writing() as tx:
        await records.insert(tx, LINKS, {"uuid": uuid})


async def test_the_memory_for_pages_is_as_configured(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db", seal=make_seal(), cache_size=1 << 20)
    sizes = (await writer_of(database)).execute("PRAGMA cache_size").fetchall()
    await database.close()
    # KiB if negative.
    assert sizes == [(-1024,)]


async def test_its_threads_end_with_it(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    database = await opened(tmp_path)
    async with database.writing() as tx:
        await tx.execute("DELETE FROM links", is_long=True)
    # Its work is in threads: one that is left would keep the program from ending.
    assert {thread.name for thread in set(threading.enumerate()) - before} >= {"sqlite-write_0"}
    await database.close()
    assert set(threading.enumerate()) <= before


async def test_many_commits_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = await opened(tmp_path)
    flushes: list[int] = []
    real = os.fdatasync

    def counted(descriptor: int) -> None:
        flushes.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    await asyncio.gather(*(add(database, str(number)) for number in range(50)))
    await database.close()
    assert 1 <= len(flushes) <= 3


async def test_who_comes_while_the_disk_is_busy_shares_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await opened(tmp_path)
    connection = await writer_of(database)
    busy, free = threading.Event(), threading.Event()
    real = os.fdatasync

    def slow(descriptor: int) -> None:
        busy.set()
        free.wait(5)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", slow)
    said: list[str] = []
    connection.set_trace_callback(said.append)
    writers = [asyncio.create_task(add(database, "first"))]
    await asyncio.to_thread(busy.wait, 5)
    for number in range(3):
        writers.append(asyncio.create_task(add(database, str(number))))
        # As long as a commit of its own would take.
        for _ in range(20):
            await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*writers)
    await database.close()
    assert said.count("COMMIT") == 2


async def test_a_disk_that_fails_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await opened(tmp_path)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(Unavailable, match="cannot be made durable"):
            await add(database, "a")
    with pytest.raises(Unavailable, match="start the server again"):
        await add(database, "b")
    await database.close()
    database = await opened(tmp_path)
    await add(database, "b")
    await database.close()


@pytest.mark.parametrize("fault", [None, OSError(errno.EIO, "no")])
async def test_a_waiter_that_left_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: OSError | None
) -> None:
    database, loop = await opened(tmp_path), asyncio.get_running_loop()
    begun, go = asyncio.Event(), asyncio.Event()

    def slow(descriptor: int) -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
        if fault:
            raise fault

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", slow)
        waiter = asyncio.create_task(add(database, "left"))
        await begun.wait()
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        go.set()
    await database.close()


async def test_the_log_is_moved_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_EVERY", 5)
    database = await opened(tmp_path)
    for number in range(12):
        await add(database, str(number))
    await database.close()
    assert sqlite3.connect(tmp_path / "db").execute("SELECT count(*) FROM links").fetchone() == (
        12,
    )


async def test_errors_in_our_words(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    with pytest.raises(Unavailable, match="cannot do that now"):
        async with database.writing() as tx:
            await tx.execute("no SQL")
    with pytest.raises(Invalid, match="too large"):
        async with database.writing() as tx:
            await tx.execute("INSERT INTO links (uuid) VALUES (?)", (1 << 70,))
    await database.close()


async def test_a_full_disk(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    connection = await writer_of(database)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Full, match="db: no room to store records"):
        async with database.writing() as tx:
            await records.insert(tx, LINKS, {"uuid": "a", "name": "x" * 100_000})
    connection.execute("PRAGMA max_page_count = 1000000")
    await add(database, "b")
    async with database.reading() as tx:
        assert [row["uuid"] for row in await records.find(tx, database.dialect, LINKS, ())] == ["b"]
    await database.close()


async def test_a_full_disk_undoes_what_shares_the_commit(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    connection = await writer_of(database)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]

    async def fill() -> None:
        async with database.writing() as tx:
            connection.execute(f"PRAGMA max_page_count = {pages}")
            await records.insert(tx, LINKS, {"uuid": "big", "name": "x" * 9_000_000})

    ends = await asyncio.gather(add(database, "a"), fill(), return_exceptions=True)
    connection.execute("PRAGMA max_page_count = 1000000")
    assert isinstance(ends[1], Full)
    async with database.reading() as tx:
        stored = await records.find(tx, database.dialect, LINKS, ())
    # Whether SQLite gives all of it up or the block alone: what was acknowledged is there.
    assert [row["uuid"] for row in stored] == (["a"] if ends[0] is None else [])
    await add(database, "b")
    await database.close()


async def test_a_commit_that_fails_is_told_to_all_who_share_it(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    connection = await writer_of(database)

    async def spoil() -> None:
        async with database.writing():
            connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_DENY if action == 22 else sqlite3.SQLITE_OK
            )

    first = asyncio.gather(add(database, "a"), spoil(), return_exceptions=True)
    ends = await first
    connection.set_authorizer(None)
    assert [type(one) for one in ends] == [Unavailable, Unavailable]
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    await add(database, "b")
    await database.close()


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, Full), (errno.EIO, Unavailable)])
async def test_a_disk_that_is_full_when_it_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Unavailable]
) -> None:
    database = await opened(tmp_path)

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(kind) as caught:
            await add(database, "a")
    assert type(caught.value) is kind
    await database.close()


async def test_a_checkpoint_that_fails_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_EVERY", 1)
    caplog.set_level("INFO")

    def fail(*_: object, **__: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    database = await opened(tmp_path)
    # A checkpoint opens a connection of its own.
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", fail)
        await add(database, "a")
        await database.close()
    assert "checkpoint failed" in caplog.text


async def test_a_rollback_that_fails_does_not_hide_the_cause(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    connection = await writer_of(database)
    with pytest.raises(ZeroDivisionError):
        async with database.writing() as tx:
            await records.insert(tx, LINKS, {"uuid": "a"})
            connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
            raise ZeroDivisionError
    connection.set_authorizer(None)
    connection.execute("ROLLBACK")
    await database.close()


async def test_a_file_that_another_program_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sqlite3.connect
    holder = real(tmp_path / "db", isolation_level=None)
    holder.execute("PRAGMA locking_mode = exclusive")
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT", 0.01)
    with pytest.raises(Unavailable, match="/db: another program holds it .*; end that program"):
        SqliteDatabase(tmp_path / "db", seal=make_seal())
    holder.close()


async def test_a_damaged_file(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    await database.close()
    data = bytearray((tmp_path / "db").read_bytes())
    data[200:] = b"x" * (len(data) - 200)
    (tmp_path / "db").write_bytes(data)
    with pytest.raises((Corrupt, Invalid), match="/db: .* restore it from a backup") as caught:
        await (await opened(tmp_path)).close()
    assert "\n" not in str(caught.value)


async def test_a_page_that_is_damaged_while_it_is_served_stops_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    database = await opened(tmp_path)
    assert database.fault is None
    await database.close()
    raw = sqlite3.connect(tmp_path / "db")
    raw.execute("CREATE TABLE filler (text TEXT)")
    raw.executemany("INSERT INTO filler VALUES (?)", [("x" * 3000,)] * 200)
    raw.commit()
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    page, size = (
        raw.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'filler'").fetchone()[0],
        4096,
    )
    raw.close()
    database = await opened(tmp_path)
    with (tmp_path / "db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with pytest.raises(Corrupt, match="is damaged .* restore it from a backup"):
        async with database.reading() as tx:
            await tx.fetch("SELECT count(text) FROM filler")
    assert isinstance(database.fault, Corrupt)
    with pytest.raises(Corrupt, match="is damaged"):
        async with database.writing():
            pass
    async with database.reading() as tx:
        assert await tx.fetch("SELECT count(*) FROM collections") == [(0,)]
    assert "database damaged" in caplog.text
    await database.close()


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 30, None])
async def test_what_cannot_be_opened(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "dir" / "db" if content is None else tmp_path / "db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Invalid, match="cannot be used as a database"):
        SqliteDatabase(path, seal=make_seal())


_LONG = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
    " INSERT INTO t SELECT i FROM n"
)


async def test_a_long_change_lets_others_read(tmp_path: Path) -> None:
    database, counts = SqliteDatabase(tmp_path / "db", seal=make_seal()), list[int]()

    async def change() -> None:
        async with database.writing() as tx:
            await tx.execute("CREATE TABLE t (i INTEGER)")
        async with database.writing() as tx:
            await tx.execute(_LONG, is_long=True)

    async def read(changing: asyncio.Task[None]) -> None:
        while not changing.done():
            async with database.reading() as tx:
                counts.append(len(await tx.fetch("SELECT 1 FROM sqlite_schema")))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(read(group.create_task(change())))
    assert counts.count(1) > 10
    await database.close()


async def test_a_long_change_that_is_cancelled_is_undone_when_its_thread_has_ended(
    tmp_path: Path,
) -> None:
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    async with database.writing() as tx:
        await tx.execute("CREATE TABLE t (i INTEGER)")

    async def change() -> None:
        async with database.writing() as tx:
            begun.set()
            await tx.execute(_LONG, is_long=True)

    begun = asyncio.Event()
    changing = asyncio.create_task(change())
    await begun.wait()
    changing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await changing
    async with database.writing() as tx:
        assert await tx.fetch("SELECT count(*) FROM t") == [(0,)]
        await tx.execute("INSERT INTO t VALUES (1)")
    await database.close()


async def test_errors_of_long_changes_in_our_words(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    async with database.writing() as tx:
        await tx.execute("CREATE TABLE t (i INTEGER UNIQUE)")
        with pytest.raises(Invalid):
            await tx.execute("INSERT INTO t VALUES (1), (1)", is_long=True)
        with pytest.raises(Invalid):
            await tx.insert_all("t", ("i",), [(2,), (2,)])
    await database.close()


def test_dialect() -> None:
    dialect = SqliteDialect()
    assert [dialect.column_type(one) for one in ("integer", "boolean", "float", "string")] == [
        "INTEGER",
        "INTEGER",
        "REAL",
        "TEXT",
    ]

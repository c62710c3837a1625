"""What is particular to SQLite: group commit, checkpoints, errors in our words."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from pathlib import Path

import pytest

from lading.core.errors import Full, Invalid, Unavailable
from lading.core.records import LINKS
from lading.core.schema import JSON
from lading.store import records, schema, sqlite
from lading.store.sqlite import SqliteDatabase, SqliteDialect


async def opened(path: Path) -> SqliteDatabase:
    database = SqliteDatabase(path / "db")
    await schema.prepare(database, now="now")
    return database


async def add(database: SqliteDatabase, uuid: str) -> None:
    async with database.writing() as tx:
        await records.insert(tx, LINKS, {"uuid": uuid})


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


async def test_a_disk_that_fails_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = await opened(tmp_path)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(Unavailable, match="cannot be made durable"):
            await add(database, "a")
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


async def test_the_log_is_moved_into_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_EVERY", 5)
    database = await opened(tmp_path)
    for number in range(12):
        await add(database, str(number))
    await database.close()
    assert sqlite3.connect(tmp_path / "db").execute("SELECT count(*) FROM links").fetchone() == (12,)


async def test_errors_in_our_words(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    with pytest.raises(Unavailable, match="cannot do that now"):
        async with database.writing() as tx:
            await tx.execute("no SQL")
    with pytest.raises(Invalid, match="too large"):
        async with database.writing() as tx:
            await tx.execute("INSERT INTO links (uuid) VALUES (?)", (1 << 70,))
    await database.close()
    with pytest.raises(Full, match="no room"), sqlite._Translated():
        raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 30, None])
async def test_what_cannot_be_opened(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "dir" / "db" if content is None else tmp_path / "db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Invalid, match="cannot be used as a database"):
        SqliteDatabase(path)


def test_dialect() -> None:
    dialect = SqliteDialect()
    assert [dialect.column_type(one) for one in ("integer", "boolean", "float", "string")] == [
        "INTEGER",
        "INTEGER",
        "REAL",
        "TEXT",
    ]
    values: list[JSON] = [True, 5, "it's", {"a": []}]
    assert [dialect.literal(one) for one in values] == ["1", "5", "'it''s'", "'{\"a\":[]}'"]

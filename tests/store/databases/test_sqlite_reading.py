"""Slow queries of SQLite leave the loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.core.errors import Unavailable
from lading.store.databases import sqlite_reading
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.databases.sqlite_reading import QuickReader, SlowReaders
from lading.testing.world import make_seal

COUNT = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
    "SELECT count(*) FROM n"
)
ENDLESS = 1 << 60


class Opened:
    """Connections that were made, and are closed in the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def __call__(self) -> sqlite3.Connection:
        self.count += 1
        return sqlite3.connect(self.path, check_same_thread=False)


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path / "db")


@pytest.fixture
def slow(opened: Opened) -> Iterator[SlowReaders]:
    made = SlowReaders(opened)
    yield made
    made.close()


@pytest.fixture
def quick(opened: Opened, slow: SlowReaders) -> Iterator[QuickReader]:
    connection = opened()
    yield QuickReader(connection, slow)
    connection.close()


async def test_what_is_quick_stays_in_the_loop(quick: QuickReader, opened: Opened) -> None:
    for _ in range(100):
        assert await quick.fetch(COUNT, (100,)) == [(100,)]
    assert opened.count == 1


async def test_what_takes_long_goes_to_a_thread_and_the_loop_goes_on(
    quick: QuickReader, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_reading, "PATIENCE", 0.001)
    counted = asyncio.create_task(quick.fetch(COUNT, (1_000_000,)))
    turns = 0
    while not counted.done():
        await asyncio.sleep(0)
        turns += 1
    assert await counted == [(1_000_000,)]
    assert opened.count == 2
    assert turns > 10
    await asyncio.gather(*(quick.fetch(COUNT, (300_000,)) for _ in range(5)))
    assert opened.count <= 3


async def test_one_that_is_given_up_is_broken_off(slow: SlowReaders) -> None:
    for _ in range(3):
        search = asyncio.create_task(slow.fetch(COUNT, (ENDLESS,)))
        await asyncio.sleep(0)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
    assert await slow.fetch(COUNT, (5,)) == [(5,)]


async def test_other_errors_stay_what_they_are(
    quick: QuickReader, slow: SlowReaders, tmp_path: Path
) -> None:
    for reader in (quick, slow):
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await reader.fetch("SELECT * FROM nowhere", ())
    database = SqliteDatabase(tmp_path / "other", seal=make_seal())
    with pytest.raises(Unavailable, match="no such table"):
        async with database.reading() as tx:
            await tx.fetch("SELECT * FROM nowhere")
    await database.close()

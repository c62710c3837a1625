"""The seam is small, and SQLite fits it. What it promises is in `tests/contracts/test_database.py`."""

from __future__ import annotations

from pathlib import Path

from lading.store.database import Database, Dialect, Transaction
from lading.store.sqlite import SqliteDatabase
from lading.testing.sealing import make_seal


def test_the_seam_is_small() -> None:
    for protocol in (Database, Dialect, Transaction):
        assert len([name for name in vars(protocol) if not name.startswith("_")]) <= 6


async def test_sqlite_fits(tmp_path: Path) -> None:
    database: Database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    async with database.writing() as tx:
        assert await tx.fetch("SELECT 1, 'a', NULL") == [(1, "a", None)]
    await database.close()

"""The seam is small, and SQLite fits it. What it promises is in
`tests/contracts/test_database.py`.
"""

from __future__ import annotations

from pathlib import Path

from lading.store.database import Database, Dialect, Row, Transaction, first_rows, text_size
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.schema import prepare
from lading.testing.world import make_seal


def test_the_seam_is_small() -> None:
    for protocol in (Database, Dialect, Transaction):
        assert len([name for name in vars(protocol) if not name.startswith("_")]) <= 6


async def test_sqlite_fits(tmp_path: Path) -> None:
    database: Database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    async with database.writing() as tx:
        assert await tx.fetch("SELECT 1, 'a', NULL") == [(1, "a", None)]
    await database.close()


def test_rows_up_to_a_size() -> None:
    rows: list[Row] = [(1, "abc", b"de"), (2, None, "f"), (3, "g", "h")]
    assert text_size(rows) == 8
    assert first_rows(rows, 6, has_some=False) == rows[:2]
    assert first_rows(rows, 1, has_some=False) == rows[:1]
    assert first_rows(rows, 1, has_some=True) == []


async def test_a_query_may_end_with_so_many_bytes(database: Database) -> None:
    await prepare(database, now="2026-01-01T00:00:00.000000000Z")
    sql = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 130) "
        "SELECT i, 'abcdefghij' FROM n"
    )
    async with database.reading() as tx:
        assert len(await tx.fetch(sql)) == 130
        assert len(await tx.fetch(sql, most=10_000)) == 130
        assert len(await tx.fetch(sql, most=755)) == 75
        assert len(await tx.fetch(sql, most=1)) == 1
        wide = sql.replace("SELECT i, 'abcdefghij'", "SELECT i, 'abcdefghij' AS text")
        for most, count in ((1300, 130), (1299, 129), (755, 75), (1, 1)):
            rows = await tx.fetch(wide, most=most, wide=("text",))
            assert rows == [(one + 1, "abcdefghij") for one in range(count)]
        assert await tx.fetch(f"{wide} WHERE i = 0", most=1, wide=("text",)) == []
    async with database.writing() as tx:
        assert len(await tx.fetch(sql, most=755)) == 75
